# The account that the walk talks to: requests, signatures, and what every answer must have.
# shellcheck shell=bash

# The account of every storage emulator; its key is public.
account=devstoreaccount1
key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='

# The version of the service that is asked for.
version=2019-02-02
# What the last answer was.
status='' headers='' body=''
# What some answer lacked, a line for each.
lacking=''
# How many answers there were.
answers=0

prefix="walk$(openssl rand -hex 5)"
table_number=0

# new_name: sets $table to a name that no other walk uses.
new_name() {
    table_number=$((table_number + 1))
    table="${prefix}n$table_number"
}

# new_table: makes a table and sets $table to its name.
new_table() {
    new_name
    ask POST /Tables -d "{\"TableName\":\"$table\"}"
}

# put_entity PARTITION ROW [PROPERTIES]: writes an entity of $table.
put_entity() {
    ask PUT "/$table(PartitionKey='$1',RowKey='$2')" -d "{${3:-}}"
}

delete_tables() {
    local number
    for ((number = 1; number <= table_number; number++)); do
        ask DELETE "/Tables('${prefix}n$number')"
    done
}

# ask METHOD PATH [CURL OPTION...]: asks with the signature in $signature, and keeps the answer.
# The path goes to the server as it is written here.
ask() {
    local method="$1" path="$2" options=() separator='?'
    shift 2
    [[ $path == *\?* ]] && separator='&'
    [[ " $*" == *"Accept:"* ]] || options+=(-H 'Accept: application/json;odata=minimalmetadata')
    [[ " $*" == *"Content-Type:"* ]] || options+=(-H 'Content-Type: application/json')
    ask_url "$method" "$endpoint$path${signature:+$separator$signature}" "${options[@]}" "$@"
}

# ask_as SIGNATURE METHOD PATH [CURL OPTION...]: as `ask`, with another signature.
ask_as() {
    local signature="$1"
    shift
    ask "$@"
}

# ask_url METHOD URL [CURL OPTION...]: as `ask`, of any URL, without any header of its own.
ask_url() {
    local method="$1" url="$2"
    shift 2
    # A file may be much larger than a command line: large bodies come as `-d @file`.
    status="$(curl --silent --show-error --path-as-is --globoff --max-time 60 "${trust[@]}" \
        --dump-header "$folder/headers" --output "$folder/body" --write-out '%{http_code}' \
        --request "$method" -H "x-ms-version: $version" -H "x-ms-client-request-id: walk" \
        -H 'Expect:' "$@" "$url")"
    headers="$(tr -d '\r' <"$folder/headers")"
    body="$(cat "$folder/body" 2>/dev/null)"
    rm -f "$folder/headers" "$folder/body"
    note_lacking "$method $url"
}

note_lacking() {
    local name
    answers=$((answers + 1))
    for name in x-ms-request-id x-ms-version Date x-ms-request-charge; do
        [[ ${headers,,} == *$'\n'"${name,,}: "?* ]] || lacking+="$name: $status $1"$'\n'
    done
}

# check_lacking HEADER: a case for a header that every answer must have.
check_lacking() {
    verdict "every answer has $1" '' "$(grep "^$1:" <<<"$lacking" | head -n 1)"
}

# check_free HEADER: a case for a header that no answer may have. Each that has not is a line.
check_free() {
    verdict "no answer has $1" "$answers" "$(grep -c "^$1:" <<<"$lacking")"
}

# header NAME: the value of a header of the last answer.
header() {
    local line
    shopt -s nocasematch
    while read -r line; do
        if [[ $line == "$1:"* ]]; then
            line="${line#*:}"
            echo "${line# }"
            break
        fi
    done <<<"$headers"
    shopt -u nocasematch
}

# sign KEY LINE...: the HMAC-SHA256 of these lines, in base64.
sign() {
    local IFS=$'\n' key_bytes
    key_bytes="$(openssl base64 -d -A <<<"$1" | od -An -v -tx1 | tr -d ' \n')"
    shift
    printf '%s' "$*" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key_bytes" -binary |
        openssl base64 -A
}

# encode TEXT: percent-encoded.
encode() {
    local LC_ALL=C text="$1" character index
    for ((index = 0; index < ${#text}; index++)); do
        character="${text:index:1}"
        case "$character" in
            [A-Za-z0-9._~-]) printf '%s' "$character" ;;
            *) printf '%%%02X' "'$character" ;;
        esac
    done
}

# in_hours N: a time from now, as signatures have it.
in_hours() {
    date --utc --date "now $1 hours" +%Y-%m-%dT%H:%M:%SZ
}

# parameters NAME...: those of these variables that have a value, as a query.
parameters() {
    local name query=''
    for name in "$@"; do
        [ -z "${!name}" ] || query+="&$name=$(encode "${!name}")"
    done
    echo "${query#&}"
}

# account_sas [NAME=VALUE...]: a signature for the account; the values replace a full grant.
account_sas() {
    local sp=rwdlacu ss=t srt=sco st='' se sip='' spr='' sv=2019-02-02 sig
    se="$(in_hours 1)"
    [ "$#" -eq 0 ] || local "$@"
    # shellcheck disable=SC2034 # used by its name
    sig="$(sign "$key" "$account" "$sp" "$ss" "$srt" "$st" "$se" "$sip" "$spr" "$sv" '')"
    parameters sv ss srt sp st se sip spr sig
}

# table_sas TABLE [NAME=VALUE...]: a signature for one table; the values replace a full grant.
table_sas() {
    local tn="$1" sp=raud st='' se si='' sip='' spr='' sv=2019-02-02 spk='' srk='' epk='' erk='' sig
    shift
    se="$(in_hours 1)"
    [ "$#" -eq 0 ] || local "$@"
    # shellcheck disable=SC2034 # used by its name
    sig="$(sign "$key" "$sp" "$st" "$se" "/table/$account/${tn,,}" "$si" "$sip" "$spr" "$sv" \
        "$spk" "$srk" "$epk" "$erk")"
    parameters sv tn sp st se si sip spr spk srk epk erk sig
}

# resource PATH: what a key signs of it. The path of the endpoint begins with the account too, so
# that it is there twice; of the query only comp counts.
resource() {
    local path="${1%%\?*}" comp=''
    [[ $1 =~ [?\&](comp=[a-z]+) ]] && comp="?${BASH_REMATCH[1]}"
    echo "/$account/${endpoint#*://*/}$path$comp"
}

# ask_with_key SCHEME KEY METHOD PATH [CURL OPTION...]: asks with SharedKey or SharedKeyLite.
ask_with_key() {
    local scheme="$1" with="$2" method="$3" path="$4" when lines
    shift 4
    when="$(LC_ALL=C date --utc '+%a, %d %b %Y %H:%M:%S GMT')"
    lines=("$when" "$(resource "$path")")
    [ "$scheme" = SharedKeyLite ] || lines=("$method" '' application/json "${lines[@]}")
    ask_as '' "$method" "$path" -H "x-ms-date: $when" \
        -H "Authorization: $scheme $account:$(sign "$with" "${lines[@]}")" "$@"
}
