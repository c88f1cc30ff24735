# Entity group transactions: multipart requests and what comes back.
# shellcheck shell=bash

walk_transactions() {
    new_table
    put_entity p old '"a":1'
    put_entity p gone
    walk_whole_transactions
    walk_broken_transactions
    walk_transaction_limits
}

begin() {
    : >"$folder/changes"
}

# change METHOD ENTITY BODY [HEADER...]: one more operation of the transaction that has begun. The
# entity is partition/row; for POST it is in the body only.
change() {
    local method="$1" entity="$2" content="$3" address="$endpoint/$table" header
    shift 3
    [ "$method" = POST ] || address+="(PartitionKey='${entity%/*}',RowKey='${entity#*/}')"
    {
        printf -- '--changeset_1\r\nContent-Type: application/http\r\n'
        printf 'Content-Transfer-Encoding: binary\r\n\r\n%s %s HTTP/1.1\r\n' "$method" "$address"
        for header in 'Content-Type: application/json' "$@"; do
            printf '%s\r\n' "$header"
        done
        printf '\r\n%s\r\n' "$content"
    } >>"$folder/changes"
}

# commit: sends the transaction.
commit() {
    {
        printf -- '--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n'
        cat "$folder/changes"
        printf -- '--changeset_1--\r\n--batch_1--\r\n'
    } >"$folder/batch"
    ask POST '/$batch' -H 'Content-Type: multipart/mixed; boundary=batch_1' \
        --data-binary "@$folder/batch"
}

walk_whole_transactions() {
    begin
    change POST '' '{"PartitionKey":"p","RowKey":"new"}'
    change POST '' '{"PartitionKey":"p","RowKey":"quiet"}' 'Prefer: return-no-content'
    change PUT p/put '{"b":2}'
    change MERGE p/old '{"b":2}' 'If-Match: *'
    change PATCH p/patched '{"b":2}'
    change DELETE p/gone '' 'If-Match: *'
    check 'every verb at once' 202 \
        'Content-Type:^multipart/mixed; ?boundary=batchresponse_' \
        '~boundary=changesetresponse_' '~HTTP/1.1 201 Created' '~HTTP/1.1 204 No Content' \
        '~ETag: W/' '~Location: http' '~DataServiceId: http' -- commit
    verdict 'one answer for each operation' 6 "$(grep -c '^HTTP/1.1 ' <<<"$body")"
    check 'merged' 200 '~"a":1' '~"b":2' -- GET "$(at old)"
    check 'deleted' 404 -- GET "$(at gone)"

    begin
    change POST p/old '{"b":3}' 'X-HTTP-Method: MERGE' 'If-Match: *'
    sed -i "s|^POST [^ ]*|POST $endpoint/$table(PartitionKey='p',RowKey='old')|" "$folder/changes"
    check 'POST with X-HTTP-Method MERGE' 202 '~HTTP/1.1 204' -- commit
    check 'merged by POST' 200 '~"a":1' '~"b":3' -- GET "$(at old)"

    printf '%s\r\n' --batch_1 'Content-Type: application/http' 'Content-Transfer-Encoding: binary' \
        '' "GET $endpoint$(at old) HTTP/1.1" 'Accept: application/json;odata=nometadata' '' \
        --batch_1-- >"$folder/batch"
    check 'a query alone' 202 '~HTTP/1.1 200 OK' '~"a":1' \
        -- POST '/$batch' -H 'Content-Type: multipart/mixed; boundary=batch_1' \
        --data-binary "@$folder/batch"
}

# check_broken NAME EXPECTATION... -- CHANGE...: a transaction that inserts and makes this change is
# refused, and what it inserted is not there.
check_broken() {
    local name="$1" expectations=() asked=() lost="lost$((passed + failed))"
    shift
    split_at_dashes "$@"
    begin
    change POST '' "{\"PartitionKey\":\"p\",\"RowKey\":\"$lost\"}"
    change "${asked[@]//LOST/$lost}"
    check "$name is refused" "${expectations[@]}" -- commit
    check "$name undoes all" 404 -- GET "$(at "$lost")"
}

walk_broken_transactions() {
    local stale="W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"" second='~"value":"1:'
    check_broken 'an entity that exists' 202 '~"code":"EntityAlreadyExists"' \
        "$second" -- POST '' '{"PartitionKey":"p","RowKey":"old"}'
    check_broken 'an update of nothing' 202 '~"code":"ResourceNotFound"' \
        "$second" -- PUT p/nothing '{"n":1}' 'If-Match: *'
    check_broken 'a delete of nothing' 202 '~"code":"ResourceNotFound"' \
        "$second" -- DELETE p/nothing '' 'If-Match: *'
    check_broken 'a stale ETag' 202 '~"code":"UpdateConditionNotSatisfied"' \
        "$second" -- PUT p/old '{"n":1}' "If-Match: $stale"
    check_broken 'one row twice' 202 '~"code":"InvalidDuplicateRow"' \
        "$second" -- PUT p/LOST '{"n":1}'
    check_broken 'an invalid property' 202 '~"code":"PropertyValueTooLarge"' \
        "$second" -- PUT p/x "{\"a\":\"$(letters 32769)\"}"
    check_broken 'another partition' '202|400' \
        '~"code":"(CommandsInBatchActOnDifferentPartitions|InvalidInput)"' \
        -- POST '' '{"PartitionKey":"q","RowKey":"r"}'
    check_broken 'a query among changes' '202|400|501' '~"odata.error"' \
        -- GET p/old ''
    check 'what is no multipart is refused' 400 code=InvalidInput \
        -- POST '/$batch' -H 'Content-Type: multipart/mixed; boundary=batch_1' -d 'nonsense'
}

walk_transaction_limits() {
    local number
    begin
    for number in {1..100}; do
        change PUT "p/$number" '{"n":1}'
    done
    check '100 operations' 202 '!~"odata.error"' -- commit
    verdict '100 answers' 100 "$(grep -c '^HTTP/1.1 204' <<<"$body")"
    change PUT p/101 '{"n":1}'
    check '101 operations are refused' '202|400' \
        '~"odata.error":\{"code":"InvalidInput"' -- commit
    check '101 operations undo all' 404 -- GET "$(at 101)"

    local large
    large="$(printf '%30000s' '' | tr ' ' x)"
    begin
    for number in {1..15}; do
        change PUT "p/$number" "{$(printf "\"p%s\":\"$large\"," {1..10})\"p\":1}"
    done
    check 'more than 4 MiB are refused' 413 code=RequestBodyTooLarge -- commit
}
