# What an answer must be.
# shellcheck shell=bash

# Refusals with another code than the service's, or in another form, each a line.
other_codes=''

# check NAME EXPECTATION... -- METHOD PATH [CURL OPTION...]
# check NAME EXPECTATION... -- COMMAND...
#
# Asks, or runs a command that does, and compares the answer with every expectation:
#
#   404            the status; 401|403 for either
#   code=A|B       a refusal in JSON with one of these codes, the same in its header: that all
#                  refusals have them is a case of its own, at the end
#   Name:REGEX     this header, with a value that matches; "Name:-" for none
#   ~REGEX         the body matches
#   !~REGEX        the body does not match
check() {
    local name="$1" expectations=() asked=()
    shift
    split_at_dashes "$@"
    case "${asked[0]}" in
        [A-Z]*) ask "${asked[@]}" ;;
        *) "${asked[@]}" ;;
    esac
    local expectation
    for expectation in "${expectations[@]}"; do
        meets "$expectation" && continue
        if [[ $expectation == code=* || $expectation == x-ms-error-code:* ]]; then
            other_codes+="$area: $name: expected $expectation, got $(shown_answer)"$'\n'
            continue
        fi
        fail "$name" "expected $expectation, got $(shown_answer)"
        return
    done
    pass "$name"
}

# split_at_dashes EXPECTATION... -- WORD...: into `expectations` and `asked` of the caller.
split_at_dashes() {
    while [ "$1" != -- ]; do
        expectations+=("$1")
        shift
    done
    shift
    asked=("$@")
}

# Whether the last answer meets an expectation.
meets() {
    case "$1" in
        [1-5][0-9][0-9]*) [[ "|$1|" == *"|$status|"* ]] ;;
        code=*) is_refused_with "${1#code=}" ;;
        !~*) ! [[ $body =~ ${1#!~} ]] ;;
        ~*) [[ $body =~ ${1#"~"} ]] ;;
        *:-) [ -z "$(header "${1%:-}")" ] ;;
        *:*) [[ "$(header "${1%%:*}")" =~ ${1#*:} ]] ;;
        *) false ;;
    esac
}

is_refused_with() {
    local code
    code="$(header x-ms-error-code)"
    [[ "|$1|" == *"|$code|"* ]] && [ -n "$code" ] &&
        [[ $(header Content-Type) == *application/json* ]] &&
        [[ $body == '{"odata.error":{"code":"'"$code"'","message":{"lang":"'* ]]
}

# A case for the codes of all refusals.
check_codes() {
    verdict 'every refusal has its code' '' "$other_codes"
}

shown_answer() {
    local code
    code="$(header x-ms-error-code)"
    printf '%s' "$status${code:+ $code} "
    head -c 600 <<<"$body" | tr -s '\r\n' ' '
}
