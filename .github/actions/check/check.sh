#!/usr/bin/env bash
# Check the contracts, write annotations, job summary and SARIF, and leave the exit code to the last step.
# With records, backtest one contract too: its report follows the summary of the check.
set -euo pipefail
tidegate=$RUNNER_TEMP/tidegate/bin/tidegate
# A folder of its own for each run: an action may be used twice in a job.
reports=$(mktemp -d "$RUNNER_TEMP/tidegate-check.XXXXXX")

# The commit of the base branch: the first parent of the merge commit that GitHub made of the pull request.
# The tip of the base branch may be newer, and what others merged since would appear as undone.
base_commit() {
  local parents
  mapfile -t parents < <(git cat-file commit "$GITHUB_SHA" 2>/dev/null | sed -n '/^$/q; s/^parent //p')
  if [[ $GITHUB_EVENT_NAME != pull_request || ${#parents[@]} -ne 2 ]]; then
    echo "::error title=tidegate::this is no merge commit of a pull request; run on pull_request with the default ref of actions/checkout, or set the input \`against\`" >&2
    return 2
  fi
  if ! git cat-file -e "${parents[0]}^{commit}" 2>/dev/null &&
    ! git fetch --quiet --no-tags --depth=1 origin "${parents[0]}" >&2; then
    echo "::error title=tidegate::cannot fetch the base commit ${parents[0]}; set \`fetch-depth: 2\` in actions/checkout" >&2
    return 2
  fi
  echo "${parents[0]}"
}

against=$INPUT_AGAINST
if [ -z "$against" ]; then
  against=git:$(base_commit)
fi

paths=()
while IFS= read -r path; do
  if [ -n "$path" ]; then paths+=("$path"); fi
done <<<"$INPUT_PATHS"

options=("--against=$against")
if [ "$INPUT_ALLOW_MAJOR" = true ]; then options+=(--allow-major); fi

"$tidegate" check "${options[@]}" --format sarif --output "$reports/check.sarif" --fail-on never -- "${paths[@]}"
code=0
GITHUB_STEP_SUMMARY=$reports/summary.md \
  "$tidegate" check "${options[@]}" --format github "--fail-on=$INPUT_FAIL_ON" -- "${paths[@]}" || code=$?
if [ "$code" -gt 1 ]; then exit "$code"; fi

has_backtest=false
if [ -n "$INPUT_BACKTEST_DATA" ]; then
  contract=$INPUT_BACKTEST_CONTRACT
  if [ -z "$contract" ]; then
    if [ ${#paths[@]} -ne 1 ] || [ ! -f "${paths[0]}" ]; then
      echo "::error title=tidegate::name the contract to backtest in the input \`backtest-contract\`: \`paths\` names no single document" >&2
      exit 2
    fi
    contract=${paths[0]}
  fi
  limit=()
  if [ -n "$INPUT_MAX_NEWLY_REFUSED" ]; then limit=("--max-newly-refused=$INPUT_MAX_NEWLY_REFUSED"); fi
  backtest=0
  "$tidegate" backtest "--against=$against" "--data=$INPUT_BACKTEST_DATA" "${limit[@]}" \
    --format markdown --output "$reports/backtest.md" -- "$contract" || backtest=$?
  if [ "$backtest" -gt 1 ]; then exit "$backtest"; fi
  if [ "$backtest" -eq 1 ]; then code=1; fi
  if [ -f "$reports/backtest.md" ]; then # not for a contract with mistakes, which the check reports
    has_backtest=true
    { echo; cat "$reports/backtest.md"; } >>"$reports/summary.md"
  fi
fi
cat "$reports/summary.md" >>"$GITHUB_STEP_SUMMARY"

# The token of a pull request from a fork, or by Dependabot, cannot write.
can_write=true
if [[ $GITHUB_EVENT_NAME == pull_request* ]]; then
  head=$("$RUNNER_TEMP/tidegate/bin/python" -I -c '
import json, sys
head = json.load(open(sys.argv[1], encoding="utf-8"))["pull_request"]["head"]
print((head["repo"] or {}).get("full_name", ""))  # null if the fork was deleted
' "$GITHUB_EVENT_PATH")
  if [[ $head != "$GITHUB_REPOSITORY" || $GITHUB_ACTOR == 'dependabot[bot]' ]]; then
    can_write=false
    echo "::notice title=tidegate::the token of this pull request cannot write, so code scanning and the comment are left out; annotations and job summary have all findings"
  fi
fi
{
  echo "exit-code=$code"
  echo "can-write=$can_write"
  echo "sarif-file=$reports/check.sarif"
  echo "summary-file=$reports/summary.md"
  echo "has-backtest=$has_backtest"
} >>"$GITHUB_OUTPUT"
