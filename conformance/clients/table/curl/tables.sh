# Tables: create, list, get, delete.
# shellcheck shell=bash

walk_tables() {
    local first second
    new_name && first="$table"
    new_name && second="$table"
    local one="/Tables?\$top=1&\$filter=TableName%20ge%20'$first'"

    check 'create' 201 "~\"TableName\":\"$first\"" '~"odata.metadata":"' \
        'Content-Type:^application/json;odata=minimalmetadata' \
        -- POST /Tables -d "{\"TableName\":\"$first\"}"
    check 'no Preference-Applied unless asked' 201 Preference-Applied:- \
        -- POST /Tables -d "{\"TableName\":\"$second\"}"
    check 'create again is refused' 409 code=TableAlreadyExists \
        -- POST /Tables -d "{\"TableName\":\"$first\"}"
    check 'list' 200 "~\"TableName\":\"$first\"" "~\"TableName\":\"$second\"" \
        -- GET /Tables
    check 'list with a filter' 200 "~\"TableName\":\"$first\"" "!~$second" \
        -- GET "/Tables?\$filter=TableName%20eq%20'$first'"
    check 'list one, and where to go on' 200 "~$first" "!~$second" \
        "x-ms-continuation-NextTableName:." \
        -- GET "$one"
    one+="&NextTableName=$(encode "$(header x-ms-continuation-NextTableName)")"
    check 'go on' 200 "!~$first" "~$second" -- GET "$one"
    check 'get one' 200 "~\"TableName\":\"$first\"" -- GET "/Tables('$first')"
    check 'get one that is missing' 404 'code=ResourceNotFound|TableNotFound' \
        -- GET "/Tables('${prefix}missing')"
    check 'delete' 204 -- DELETE "/Tables('$second')"
    check 'delete again is refused' 404 code=ResourceNotFound \
        -- DELETE "/Tables('$second')"
    check 'insert into a missing table is refused' 404 code=TableNotFound \
        -- POST "/$second" -d '{"PartitionKey":"p","RowKey":"r"}'
    check 'query a missing table is refused' 404 code=TableNotFound -- GET "/$second()"
    walk_table_preferences
    walk_table_names
    if [[ $endpoint == http:* ]]; then
        # A name under localhost needs no name server; the certificate would not know it.
        check 'the account in the name of the host' 200 "~$first" -- ask_url GET \
            "http://$account.localhost:$(port)/Tables?$signature" -H 'Accept: application/json' \
            --connect-to "::127.0.0.1:$(port)"
    fi
}

walk_table_preferences() {
    new_name
    check 'Prefer return-no-content' 204 'Preference-Applied:^return-no-content$' \
        Location:"Tables\('$table'\)" \
        -- POST /Tables -H 'Prefer: return-no-content' -d "{\"TableName\":\"$table\"}"
    new_name
    check 'Prefer return-content' 201 'Preference-Applied:^return-content$' \
        -- POST /Tables -H 'Prefer: return-content' -d "{\"TableName\":\"$table\"}"
}

walk_table_names() {
    local name codes long=64 rules
    [ -z "$cosmos" ] || long=255
    long="$(letters "$long")"
    rules="ab OutOfRangeInput|InvalidResourceName
1abc InvalidResourceName
a-b-c InvalidResourceName
tables InvalidInput|InvalidResourceName"
    [ -z "$cosmos" ] || rules='a/b InvalidResourceName
a#b InvalidResourceName'
    while read -r name codes; do
        check "the name ${name:0:10} is refused" 400 "code=$codes" \
            -- POST /Tables -d "{\"TableName\":\"$name\"}"
    done <<EOF
$rules
$long OutOfRangeInput|InvalidResourceName
EOF
    check 'no name is refused' 400 'code=InvalidInput|PropertiesNeedValue|OutOfRangeInput' \
        -- POST /Tables -d '{}'
}

port() {
    local authority="${endpoint#*://}"
    authority="${authority%%/*}"
    echo "${authority##*:}"
}
