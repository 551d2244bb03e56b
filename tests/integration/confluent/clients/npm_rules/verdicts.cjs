// Asks the CEL executor of Confluent's JavaScript client about records: [{schema, expr, records}] on standard input,
// and on standard output for each expression whether it is true of each record. An error counts as not true.
const path = require("path");

const folder = path.dirname(require.resolve("@confluentinc/schemaregistry"));
const { CelExecutor } = require(path.join(folder, "rules", "cel", "cel-executor.js"));

async function main() {
  const found = {};
  for (const { schema, expr, records } of JSON.parse(require("fs").readFileSync(0))) {
    const target = { schema: JSON.stringify(schema), schemaType: "JSON" };
    const executor = new CelExecutor();
    found[expr] = [];
    for (const record of records) {
      const answer = await executor
        .transform({ rule: { expr, kind: "CONDITION" }, target }, record)
        .catch((error) => error);
      found[expr].push(answer === true);
    }
  }
  console.log(JSON.stringify(found));
}

main();
