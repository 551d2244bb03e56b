// What the schema registry client of franz-go does with the registry at the address in os.Args: one JSON object of findings.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	narrow = `{"type":"record","name":"Admission","namespace":"hospital.go","fields":[{"name":"age","type":"int"}]}`
	wider  = `{"type":"record","name":"Admission","namespace":"hospital.go","fields":[{"name":"age","type":"int"},{"name":"ward","type":"string","default":""}]}`
	other  = `{"type":"record","name":"Admission","namespace":"hospital.go","fields":[{"name":"age","type":"string"}]}`
	unit   = `{"type":"record","name":"Unit","namespace":"hospital.go","fields":[{"name":"ward","type":"string"}]}`
	stay   = `{"type":"record","name":"Stay","namespace":"hospital.go","fields":[{"name":"unit","type":"hospital.go.Unit"}]}`
)

func main() {
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(os.Args[1]), sr.UserAgent("tidegate"))
	check(err)
	found := map[string]any{}

	first, err := client.CreateSchema(ctx, "go-value", sr.Schema{Schema: narrow})
	check(err)
	again, err := client.CreateSchema(ctx, "go-value", sr.Schema{Schema: narrow})
	check(err)
	found["registeredTwice"] = first.ID == again.ID && first.Version == 1
	byID, err := client.SchemaByID(ctx, first.ID)
	check(err)
	found["byID"] = byID.Schema
	latest, err := client.SchemaByVersion(ctx, "go-value", -1)
	check(err)
	found["latest"] = []any{latest.Subject, latest.Version}
	looked, err := client.LookupSchema(ctx, "go-value", sr.Schema{Schema: narrow})
	check(err)
	found["lookedUp"] = looked.ID == first.ID
	fits, err := client.CheckCompatibility(ctx, "go-value", -1, sr.Schema{Schema: wider})
	check(err)
	found["compatible"] = fits.Is
	breaks, err := client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), "go-value", -1, sr.Schema{Schema: other})
	check(err)
	found["incompatible"] = !breaks.Is && len(breaks.Messages) > 0
	_, err = client.CreateSchema(ctx, "go-value", sr.Schema{Schema: other})
	found["refused"] = refusal(err)
	_, err = client.SchemaByVersion(ctx, "go-nobody", -1)
	found["unknownSubject"] = refusal(err)
	_, err = client.LookupSchema(ctx, "go-value", sr.Schema{Schema: wider})
	found["unknownSchema"] = refusal(err)

	set := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull, Group: "major"}, "go-value")
	check(set[0].Err)
	found["set"] = []any{set[0].Level.String(), set[0].Group}
	level := client.Compatibility(ctx, "go-value")
	check(level[0].Err)
	found["level"] = []any{level[0].Level.String(), level[0].Group}
	mode := client.SetMode(ctx, sr.ModeReadOnly, "go-value")
	check(mode[0].Err)
	found["readOnlySchema"] = refusal(second(client.CreateSchema(ctx, "go-value", sr.Schema{Schema: wider})))
	found["readOnlyConfig"] = refusal(
		client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatNone}, "go-value")[0].Err)
	check(client.ResetMode(ctx, "go-value")[0].Err)

	_, err = client.CreateSchema(ctx, "go-unit", sr.Schema{Schema: unit})
	check(err)
	stays, err := client.CreateSchema(ctx, "go-stay-value", sr.Schema{
		Schema:     stay,
		References: []sr.SchemaReference{{Name: "hospital.go.Unit", Subject: "go-unit", Version: 1}},
	})
	check(err)
	using, err := client.SchemaReferences(ctx, "go-unit", 1)
	check(err)
	found["referenced"] = len(using) == 1 && using[0].ID == stays.ID

	versions, err := client.SubjectVersions(ctx, "go-value")
	check(err)
	found["versions"] = versions
	deleted, err := client.DeleteSubject(ctx, "go-value", sr.SoftDelete)
	check(err)
	found["deleted"] = deleted
	deleted, err = client.DeleteSubject(ctx, "go-value", sr.HardDelete)
	check(err)
	found["deletedForGood"] = deleted
	out, err := json.Marshal(found)
	check(err)
	fmt.Println(string(out))
}

func second[T any](_ T, err error) error { return err }

func refusal(err error) []int {
	var refused *sr.ResponseError
	if !errors.As(err, &refused) {
		return nil
	}
	return []int{refused.StatusCode, refused.ErrorCode}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
