#!/bin/sh
# Creates `workspace.tar.gz`, a workspace as an earlier version of the program left it.
#
#   sh make.sh PROGRAM
#
# PROGRAM is built from commit 2f5e9ba. It is killed while a plan runs, as by a power failure. The paths in the
# database of plans are those of the directory below.
set -eu
program=$(realpath "$1")
archive=$(realpath "$(dirname "$0")")/workspace.tar.gz
top=/tmp/orchestra-earlier
mkdir "$top" "$top/home" "$top/work"
trap 'rm -rf "$top"' EXIT
cd "$top/work"

run() {
    env -i PATH="$PATH" HOME="$top/home" ORCHESTRA_ENGINE=off "$program" "$@"
}
call() {
    run tool call "$@" > /dev/null
}

git init --quiet --initial-branch main
git config user.name Example
git config user.email user@example.org
echo '# Shop' > README.md
git add README.md
git commit --quiet --message 'Add a README'

call create_project name=Shop
call write_prd project=shop content='# Shop

Buyers pay by card.'
call create_epic project=shop title='Pay by card' priority=high
call create_story project=shop epic_id=S-1 title='Card form' user_story='As a buyer I pay by card'
for title in 'Draw the form' 'Check the number' 'Call the bank' 'Print a receipt' 'Write the help page'; do
    call create_task project=shop story_id=S-2 type=task title="$title"
done
for task in S-3 S-4 S-5; do
    call update_task project=shop task_id="$task" status=todo
done
call set_current_task project=shop task_id=S-4 agent=earlier
call complete_task project=shop task_id=S-4 agent=earlier evidence='cargo test: 12 passed'
call set_current_task project=shop task_id=S-5 agent=earlier
call add_dependency project=shop issue_id=S-6 depends_on=S-5
call update_task project=shop task_id=S-7 status=cancelled
call add_comment project=shop issue_id=S-5 text='The bank answers within two seconds.'
call report_bug project=shop story_id=S-2 title='Form forgets the month' severity=high
call log_request project=shop type=feature description='Pay by invoice'
call save_memory project=shop summary='Currency' content='All prices are in euro cents.' tags=money
call save_session project=shop session_id=first summary='Wrote the card form.'
call save_plan project=shop title=Release content='1. Test. 2. Ship.'
call create_project name='Help desk'

# Each job that waits adds a line to a file in the home directory.
cat > running.yaml <<'PLAN'
name: Running
targetBranch: running
jobs:
- producerId: waits
  task: Wait
  autoHeal: false
  work: echo started >> "$HOME/started"; while ! test -e "$HOME/gate"; do sleep 0.05; done; echo done > done.txt
PLAN
cat > waiting.yaml <<'PLAN'
name: Waiting
targetBranch: waiting
jobs:
- {producerId: waits, task: Wait, autoHeal: false, work: 'echo started >> "$HOME/started"; echo done > done.txt'}
PLAN
cat > done.yaml <<'PLAN'
name: Done
targetBranch: done
jobs:
- {producerId: writes, task: Write, autoHeal: false, work: 'echo done > done.txt'}
PLAN
run plan run done.yaml > /dev/null
run plan create waiting.yaml > /dev/null
env -i PATH="$PATH" HOME="$top/home" ORCHESTRA_ENGINE=off "$program" plan run running.yaml > /dev/null &
runner=$!
until test -e "$top/home/started"; do sleep 0.05; done
kill -9 "$runner"
wait "$runner" || true
# Ends the job, which has outlived its runner.
touch "$top/home/gate"
rm -rf .projects/.run .git/hooks .git/logs .git/worktrees/*/logs
rm -f .orchestrator/plans/runner.sock
find .orchestrator -name '*.run' -exec sed -i 's/"numbering":"[^"]*"/"numbering":"another boot"/' {} +

tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - . | gzip -9n > "$archive"
