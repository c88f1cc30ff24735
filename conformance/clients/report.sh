# What walks with bash share: cases and their verdicts, a line of JSON for each.
#
# The runner, `tessera-conformance run`, reads these lines; README.md says what is in them.
# shellcheck shell=bash

area=walk
passed=0
failed=0
since="${EPOCHREALTIME/./}"

# pass NAME
pass() {
    passed=$((passed + 1))
    tell "$1" passed ''
}

# fail NAME MESSAGE
fail() {
    failed=$((failed + 1))
    tell "$1" failed "$2"
}

# verdict NAME EXPECTED ACTUAL
verdict() {
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "expected $2, got $3"; fi
}

# tell NAME OUTCOME MESSAGE: prints a case, whose time began with the end of the case before it.
tell() {
    local now="${EPOCHREALTIME/./}" name message
    local micros=$((now - since))
    quoted "$1" && name="$quoted"
    quoted "$3" && message="$quoted"
    printf '{"area":"%s","case":%s,"outcome":"%s","ms":%d.%03d,"message":%s}\n' \
        "$area" "$name" "$2" $((micros / 1000)) $((micros % 1000)) "$message"
    since="$now"
}

# quoted TEXT: sets `quoted` to the text as a string of JSON.
quoted() {
    quoted="${1//\\/\\\\}"
    quoted="${quoted//\"/\\\"}"
    quoted="\"${quoted//[[:cntrl:]]/ }\""
}

# Succeeds if nothing failed.
finish() {
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
