# Metadata: what an answer says of types, ETags and addresses, at each of the three levels.
# shellcheck shell=bash

all_types='"s":"text","i":5,"l@odata.type":"Edm.Int64","l":"1099511627776","d":1.5,
    "w@odata.type":"Edm.Double","w":3.0,"n@odata.type":"Edm.Double","n":"NaN","b":true,
    "t@odata.type":"Edm.DateTime","t":"2024-01-02T03:04:05.6789012Z",
    "g@odata.type":"Edm.Guid","g":"c9da6455-213d-42c9-9a79-3e9149a57833",
    "x@odata.type":"Edm.Binary","x":"AAH/"'

walk_metadata() {
    new_table
    put_entity p r "$all_types"
    local get=(GET "/$table(PartitionKey='p',RowKey='r')" -H)
    local list=(GET "/$table()" -H)
    local json='Accept: application/json' values annotations level
    values=('~"s":"text"' '~"i":5[,}]' '~"l":"1099511627776"' '~"d":1.5[,}]' '~"w":3.0[,}]'
        '~"n":"NaN"' '~"b":true' '~"t":"2024-01-02T03:04:05.6789012Z"'
        '~"g":"c9da6455-213d-42c9-9a79-3e9149a57833"' '~"x":"AAH/"' '~"Timestamp":"')
    annotations=('~"l@odata.type":"Edm.Int64"' '~"t@odata.type":"Edm.DateTime"'
        '~"g@odata.type":"Edm.Guid"' '~"x@odata.type":"Edm.Binary"' '~"n@odata.type":"Edm.Double"')
    local none='!~odata[.]'
    local minimal=('~"odata.metadata":"http' '~"odata.etag":"W/' '!~"odata.editLink"'
        '!~"[sibp]@odata.type"' '!~"Timestamp@odata.type"')
    local full=('~"odata.metadata":"http' '~"odata.etag":"W/'
        '~"Timestamp@odata.type":"Edm.DateTime"'
        "~\"odata.type\":\"$account.$table\""
        "~\"odata.id\":\"http[^\"]*/$table\\(PartitionKey='p',RowKey='r'\\)\""
        "~\"odata.editLink\":\"$table\\(PartitionKey='p',RowKey='r'\\)\"")

    for level in get list; do
        local -n request="$level"
        check "none, $level" 200 "${values[@]}" "$none" \
            'Content-Type:^application/json;odata=nometadata' \
            -- "${request[@]}" "$json;odata=nometadata"
        check "minimal, $level" 200 "${values[@]}" "${annotations[@]}" "${minimal[@]}" \
            -- "${request[@]}" "$json;odata=minimalmetadata"
        check "minimal unless asked otherwise, $level" 200 "${values[@]}" \
            "${annotations[@]}" "${minimal[@]}" -- "${request[@]}" "$json"
        check "full, $level" 200 "${values[@]}" "${annotations[@]}" "${full[@]}" \
            -- "${request[@]}" "$json;odata=fullmetadata"
    done
    check '$format before Accept' 200 "${values[@]}" "$none" -- GET \
        "/$table(PartitionKey='p',RowKey='r')?\$format=application/json;odata=nometadata"
    walk_atom "${get[@]:0:2}"
    check 'the context of a list' 200 "~\"odata.metadata\":\"http[^\"]*#$table\"" \
        '~"value":\[\{' -- "${list[@]}" "$json"
    check 'tables, none' 200 '!~odata' "~\"TableName\":\"$table\"" \
        -- GET "/Tables?\$filter=TableName%20eq%20'$table'" -H "$json;odata=nometadata"
    check 'tables, full' 200 "~\"odata.type\":\"$account.Tables\"" \
        "~\"odata.editLink\":\"Tables\\('$table'\\)\"" \
        -- GET "/Tables?\$filter=TableName%20eq%20'$table'" -H "$json;odata=fullmetadata"
    check 'annotations may come after values' 204 \
        -- PUT "/$table(PartitionKey='p',RowKey='after')" -d '{"l":"5","l@odata.type":"Edm.Int64"}'
    check 'the annotation after the value counts' 200 '~"l@odata.type":"Edm.Int64"' \
        -- GET "/$table(PartitionKey='p',RowKey='after')"
}

# walk_atom GET PATH: versions before 2015-12-11 speak Atom, later ones do not, Cosmos never did.
walk_atom() {
    local atom=(-H 'Accept: application/atom+xml' -H 'Content-Type: application/atom+xml')
    local namespace='http://schemas.microsoft.com/ado/2007/08/dataservices'
    local entry="<entry xmlns=\"http://www.w3.org/2005/Atom\" xmlns:d=\"$namespace\" "
    entry+="xmlns:m=\"$namespace/metadata\"><content type=\"application/xml\"><m:properties>"
    entry+='<d:PartitionKey>p</d:PartitionKey><d:RowKey>atom</d:RowKey>'
    entry+='<d:n m:type="Edm.Int32">5</d:n></m:properties></content></entry>'

    check 'Atom is refused' 415 x-ms-error-code:AtomFormatNotSupported \
        -- "$@" "${atom[@]}"
    local version=2013-08-15
    if [ -n "$cosmos" ]; then
        check 'Atom of an old version is refused' 415 code=AtomFormatNotSupported \
            -- "$@" "${atom[@]}"
        return
    fi
    check 'Atom of an old version' 200 Content-Type:^application/atom '~<entry' \
        '~<d:s>text</d:s>' '~<d:l m:type="Edm.Int64">1099511627776</d:l>' -- "$@" "${atom[@]}"
    check 'insert in Atom' 201 '~<entry' -- POST "/$table" "${atom[@]}" -d "$entry"
    check 'what was inserted in Atom' 200 '~"n":5[,}]' \
        -- GET "/$table(PartitionKey='p',RowKey='atom')"
}
