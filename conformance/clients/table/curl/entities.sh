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
    check 'entities: insert' 201 "ETag:$etag" '~"odata.etag":"W/' '~"a":1[,}]' '~"Timestamp":"' \
        "Location:$table\\(PartitionKey='p',RowKey='1'\\)$" \
        -- "${insert[@]}" '{"PartitionKey":"p","RowKey":"1","a":1}'
    check 'entities: insert again is refused' 409 code=EntityAlreadyExists \
        -- "${insert[@]}" '{"PartitionKey":"p","RowKey":"1"}'
    check 'gap: entities: no Preference-Applied unless asked' 201 Preference-Applied:- \
        -- "${insert[@]}" '{"PartitionKey":"p","RowKey":"2"}'
    check 'entities: Prefer return-content' 201 'Preference-Applied:^return-content$' \
        '~"RowKey":"3"' \
        -- "${insert[@]}" '{"PartitionKey":"p","RowKey":"3"}' -H 'Prefer: return-content'
    check 'entities: Prefer return-no-content' 204 'Preference-Applied:^return-no-content$' \
        "ETag:$etag" '~^$' \
        -- "${insert[@]}" '{"PartitionKey":"p","RowKey":"4"}' -H 'Prefer: return-no-content'
    check 'gap: entities: no content, but its address' 204 \
        "Location:$table\\(PartitionKey='p',RowKey='5'\\)$" \
        -- "${insert[@]}" '{"PartitionKey":"p","RowKey":"5"}' -H 'Prefer: return-no-content'
    check 'entities: the id of the request comes back' 200 'x-ms-client-request-id:^walk$' \
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
            check "entities: $name what is not there by $verb is refused" 404 \
                code=ResourceNotFound -- "${request[@]}"
        else
            check "entities: $name what is not there by $verb" 204 'ETag:^W/' -- "${request[@]}"
        fi
        put_entity p "verb$row" "${seed:1:-1}"
        check "entities: $name by $verb" 204 'ETag:^W/' -- "${request[@]}"
        # shellcheck disable=SC2086 # the expectations are words
        check "entities: what $name by $verb leaves" 200 $left -- GET "$(at "verb$row")"
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
    check 'entities: delete' 204 -- DELETE "$(at verb1)" -H 'If-Match: *'
    check 'entities: delete again is refused' 404 code=ResourceNotFound \
        -- DELETE "$(at verb1)" -H 'If-Match: *'
    check 'entities: X-HTTP-Method needs POST' 400 'code=XMethodNotUsingPost|InvalidInput' \
        -- PUT "$(at verb2)" -H 'X-HTTP-Method: MERGE' -d '{}'
    check 'entities: X-HTTP-Method must be known' 400 'code=XMethodIncorrectValue|InvalidInput' \
        -- POST "$(at verb2)" -H 'X-HTTP-Method: NONSENSE' -d '{}'
    check 'entities: merge leaves alone what is null' 204 -- PATCH "$(at verb2)" -d '{"b":null}'
    check 'entities: null was left alone' 200 '~"b":2' -- GET "$(at verb2)"
}

walk_conditions() {
    local stale current verb
    put_entity p c '"n":1' && stale="$(header ETag)"
    put_entity p c '"n":2' && current="$(header ETag)"
    for verb in PUT PATCH MERGE DELETE; do
        check "entities: $verb with a stale ETag is refused" 412 code=UpdateConditionNotSatisfied \
            -- "$verb" "$(at c)" -H "If-Match: $stale" -d '{"n":3}'
        check "entities: $verb with a malformed ETag is refused" 400 code=InvalidInput \
            -- "$verb" "$(at c)" -H 'If-Match: zzz' -d '{"n":3}'
        check "entities: $verb with an ETag, of nothing, is refused" 404 code=ResourceNotFound \
            -- "$verb" "$(at nothing)" -H "If-Match: $current" -d '{}'
    done
    for verb in PUT DELETE; do
        check "entities: $verb with If-None-Match is refused" 400 code=InvalidInput \
            -- "$verb" "$(at c)" -H 'If-None-Match: *' -d '{}'
        check "entities: $verb with both conditions is refused" 400 code=InvalidInput \
            -- "$verb" "$(at c)" -H 'If-None-Match: *' -H "If-Match: $current" -d '{}'
    done
    check 'gap: entities: delete without a condition is refused' 400 \
        'code=MissingRequiredHeader|InvalidInput|InvalidHeaderValue' -- DELETE "$(at c)"
    check 'entities: what was refused changed nothing' 200 '~"n":2' -- GET "$(at c)"
    check 'entities: PUT with the ETag' 204 'ETag:^W/' \
        -- PUT "$(at c)" -H "If-Match: $current" -d '{"n":4}'
    verdict 'entities: every write changes the ETag' different \
        "$([ "$(header ETag)" = "$current" ] && echo equal || echo different)"
    check 'entities: DELETE with the ETag' 204 \
        -- DELETE "$(at c)" -H "If-Match: $(header ETag)"
}

walk_addresses() {
    put_entity p a '"n":1'
    check 'gap: entities: RowKey before PartitionKey' 200 '~"n":1' \
        -- GET "/$table(RowKey='a',PartitionKey='p')"
    check 'entities: a space after the comma' 200 '~"n":1' \
        -- GET "/$table(PartitionKey='p',%20RowKey='a')"
    check 'entities: everything encoded' 200 '~"n":1' \
        -- GET "/$table%28PartitionKey%3D%27p%27%2CRowKey%3D%27a%27%29"
    check 'entities: one key is refused' 400 code=InvalidInput -- GET "/$table(PartitionKey='p')"
    put_entity "it''s" '100%25%20%2B%20%26' '"n":2'
    check 'entities: quotes, percent, plus, ampersand' 200 '~"n":2' \
        "~\"PartitionKey\":\"it's\"" '~"RowKey":"100% \+ &"' \
        -- GET "/$table(PartitionKey='it''s',RowKey='100%25%20%2B%20%26')"
    check 'entities: empty keys' 204 -- PUT "/$table(PartitionKey='',RowKey='')" -d '{"n":3}'
    check 'entities: empty keys come back' 200 '~"n":3' '~"PartitionKey":""' \
        -- GET "/$table(PartitionKey='',RowKey='')"
    check 'entities: select' 200 '~"n":1' '!~"Timestamp"' -- GET "$(at a)?\$select=n"
}
