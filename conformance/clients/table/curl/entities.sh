# Entities: every verb that writes one, the conditions on writing, and keys in URLs.
# shellcheck shell=bash

walk_entities() {
    new_table
    walk_inserts
    walk_verbs
    walk_conditions
    walk_addresses
}

# at ROW: where an entity of partition p is.
at() {
    echo "/$table(PartitionKey='p',RowKey='$1')"
}

walk_inserts() {
    local insert=(POST "/$table" -d) etag="^W/\"datetime'[0-9-]+T[0-9]+%3A[0-9]+%3A[0-9.]+Z'\"$"
    check 'insert' 201 "ETag:$etag" '~"odata.etag":"W/' '~"a":1[,}]' '~"Timestamp":"' \
        -- "${insert[@]}" '{"PartitionKey":"p","RowKey":"1","a":1}'
    local address
    address="$(header Location)"
    check 'insert again is refused' 409 code=EntityAlreadyExists \
        -- "${insert[@]}" '{"PartitionKey":"p","RowKey":"1"}'
    check 'no Preference-Applied unless asked' 201 Preference-Applied:- \
        -- "${insert[@]}" '{"PartitionKey":"p","RowKey":"2"}'
    check 'Prefer return-content' 201 'Preference-Applied:^return-content$' \
        '~"RowKey":"3"' \
        -- "${insert[@]}" '{"PartitionKey":"p","RowKey":"3"}' -H 'Prefer: return-content'
    check 'Prefer return-no-content' 204 'Preference-Applied:^return-no-content$' \
        "ETag:$etag" '~^$' \
        -- "${insert[@]}" '{"PartitionKey":"p","RowKey":"4"}' -H 'Prefer: return-no-content'
    ask "${insert[@]}" '{"PartitionKey":"p","RowKey":"5"}' -H 'Prefer: return-no-content'
    verdict 'content or none, but its address' "$endpoint$(at 1) $endpoint$(at 5)" \
        "$address $(header Location)"
    check 'the id of the request comes back' 200 'x-ms-client-request-id:^walk$' \
        -- GET "$(at 1)"
}

# Every way to say replace, merge, insert or replace, insert or merge, and delete.
walk_verbs() {
    local row=0 name verb left if_match seed='{"a":1}'
    while IFS='|' read -r name verb if_match left; do
        row=$((row + 1))
        # shellcheck disable=SC2206 # the verb comes with its header
        local request=(${verb%% *} "$(at "verb$row")" -d '{"b":2}')
        [[ $verb == *' '* ]] && request+=(-H "X-HTTP-Method: ${verb#* }")
        [ -z "$if_match" ] || request+=(-H "If-Match: $if_match")

        if [ -n "$if_match" ]; then
            check "$name what is not there by $verb is refused" 404 \
                code=ResourceNotFound -- "${request[@]}"
        else
            check "$name what is not there by $verb" 204 'ETag:^W/' -- "${request[@]}"
        fi
        put_entity p "verb$row" "${seed:1:-1}"
        check "$name by $verb" 204 'ETag:^W/' -- "${request[@]}"
        # shellcheck disable=SC2086 # the expectations are words
        check "what $name by $verb leaves" 200 $left -- GET "$(at "verb$row")"
    done <<'EOF'
replace|PUT|*|!~"a": ~"b":2
insert or replace|PUT||!~"a": ~"b":2
merge|PATCH|*|~"a":1 ~"b":2
merge|MERGE|*|~"a":1 ~"b":2
merge|POST MERGE|*|~"a":1 ~"b":2
merge|POST PATCH|*|~"a":1 ~"b":2
insert or merge|PATCH||~"a":1 ~"b":2
insert or merge|MERGE||~"a":1 ~"b":2
insert or merge|POST MERGE||~"a":1 ~"b":2
EOF
    check 'delete' 204 -- DELETE "$(at verb1)" -H 'If-Match: *'
    check 'delete again is refused' 404 code=ResourceNotFound \
        -- DELETE "$(at verb1)" -H 'If-Match: *'
    check 'X-HTTP-Method needs POST' 400 'code=XMethodNotUsingPost|InvalidInput' \
        -- PUT "$(at verb2)" -H 'X-HTTP-Method: MERGE' -d '{}'
    check 'X-HTTP-Method must be known' 400 'code=XMethodIncorrectValue|InvalidInput' \
        -- POST "$(at verb2)" -H 'X-HTTP-Method: NONSENSE' -d '{}'
    check 'merge leaves alone what is null' 204 -- PATCH "$(at verb2)" -d '{"b":null}'
    check 'null was left alone' 200 '~"b":2' -- GET "$(at verb2)"
}

walk_conditions() {
    local stale current verb
    put_entity p c '"n":1' && stale="$(header ETag)"
    put_entity p c '"n":2' && current="$(header ETag)"
    for verb in PUT PATCH MERGE DELETE; do
        check "$verb with a stale ETag is refused" 412 code=UpdateConditionNotSatisfied \
            -- "$verb" "$(at c)" -H "If-Match: $stale" -d '{"n":3}'
        check "$verb with a malformed ETag is refused" 400 code=InvalidInput \
            -- "$verb" "$(at c)" -H 'If-Match: zzz' -d '{"n":3}'
        check "$verb with an ETag, of nothing, is refused" 404 code=ResourceNotFound \
            -- "$verb" "$(at nothing)" -H "If-Match: $current" -d '{}'
    done
    check 'delete without a condition is refused' 400 \
        'code=MissingRequiredHeader|InvalidInput|InvalidHeaderValue' -- DELETE "$(at c)"
    check 'what was refused changed nothing' 200 '~"n":2' -- GET "$(at c)"
    check 'PUT with the ETag' 204 'ETag:^W/' \
        -- PUT "$(at c)" -H "If-Match: $current" -d '{"n":4}'
    verdict 'every write changes the ETag' different \
        "$([ "$(header ETag)" = "$current" ] && echo equal || echo different)"
    check 'DELETE with the ETag' 204 \
        -- DELETE "$(at c)" -H "If-Match: $(header ETag)"
    walk_negated_conditions
}

# Each on an entity that is written anew: a server that looks at no If-None-Match changes it.
walk_negated_conditions() {
    local verb none=(-H 'If-None-Match: *' -d '{}')
    for verb in PUT DELETE; do
        put_entity p d '"n":1'
        check "$verb with both conditions is refused" 400 code=InvalidInput \
            -- "$verb" "$(at d)" "${none[@]}" -H "If-Match: $(header ETag)"
        put_entity p d '"n":1'
        check "$verb with If-None-Match is refused" 400 code=InvalidInput \
            -- "$verb" "$(at d)" "${none[@]}"
    done
}

walk_addresses() {
    put_entity p a '"n":1'
    check 'RowKey before PartitionKey' 200 '~"n":1' \
        -- GET "/$table(RowKey='a',PartitionKey='p')"
    check 'a space after the comma' 200 '~"n":1' \
        -- GET "/$table(PartitionKey='p',%20RowKey='a')"
    check 'everything encoded' 200 '~"n":1' \
        -- GET "/$table%28PartitionKey%3D%27p%27%2CRowKey%3D%27a%27%29"
    check 'one key is refused' 400 code=InvalidInput -- GET "/$table(PartitionKey='p')"
    put_entity "it''s" '100%25%20%2B%20%26' '"n":2'
    check 'quotes, percent, plus, ampersand' 200 '~"n":2' \
        "~\"PartitionKey\":\"it's\"" '~"RowKey":"100% \+ &"' \
        -- GET "/$table(PartitionKey='it''s',RowKey='100%25%20%2B%20%26')"
    check 'empty keys' 204 -- PUT "/$table(PartitionKey='',RowKey='')" -d '{"n":3}'
    check 'empty keys come back' 200 '~"n":3' '~"PartitionKey":""' \
        -- GET "/$table(PartitionKey='',RowKey='')"
    check 'select' 200 '~"n":1' '!~"Timestamp"' -- GET "$(at a)?\$select=n"
}
