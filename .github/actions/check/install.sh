#!/usr/bin/env bash
# Install the light wheel of this action's own commit into an environment apart from that of the job.
# The versions of its dependencies are those of the lock.
set -euo pipefail
source_dir=$(cd "$GITHUB_ACTION_PATH/../../.." && pwd)
environment=$RUNNER_TEMP/tidegate

"$PYTHON" -m venv "$environment"
# A local folder has no hash, so pip would refuse it beside requirements with hashes. Versions alone are kept.
sed -n 's/^\([a-z0-9][^ ]*==[^\\]*\).*/\1/p' "$source_dir/requirements.lock" >"$environment/constraints.txt"
"$environment/bin/pip" install --quiet --disable-pip-version-check \
  --constraint "$environment/constraints.txt" "$source_dir"
"$environment/bin/tidegate" --version
