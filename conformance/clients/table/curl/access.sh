# Access: keys, signatures for the account and for a table, stored policies, tokens.
# shellcheck shell=bash

walk_access() {
    new_table
    put_entity p r
    local get=(GET "/$table(PartitionKey='p',RowKey='r')")
    walk_keys
    walk_account_signatures
    walk_table_signatures
    walk_ranges
}

walk_keys() {
    local wrong scheme of_storage=200
    [ -z "$cosmos" ] || of_storage=501
    wrong="$(openssl base64 -A <<<'not the key')"
    for scheme in SharedKey SharedKeyLite; do
        check "$scheme" 200 -- ask_with_key "$scheme" "$key" "${get[@]}"
        check "$scheme with comp" "$of_storage" \
            -- ask_with_key "$scheme" "$key" GET "/$table?comp=acl"
        check "$scheme with a wrong key is refused" 403 code=AuthenticationFailed \
            -- ask_with_key "$scheme" "$wrong" "${get[@]}"
    done
    check 'nothing is refused' '401|403' x-ms-error-code:. -- ask_as '' "${get[@]}"
    check 'a nonsense header is refused' '400|401|403' x-ms-error-code:. \
        -- ask_as '' "${get[@]}" -H 'Authorization: nonsense'
    check 'a nonsense token is refused with a challenge' 401 'WWW-Authenticate:^Bearer ' \
        code=InvalidAuthenticationInfo -- ask_as '' "${get[@]}" -H 'Authorization: Bearer nonsense'
    if [ -n "$token" ]; then
        check 'a token of the issuer' 200 '~"RowKey":"r"' \
            -- ask_as '' "${get[@]}" -H "Authorization: Bearer $token"
        check 'a token that was changed after signing is refused' 401 \
            code=InvalidAuthenticationInfo \
            -- ask_as '' "${get[@]}" -H "Authorization: Bearer ${token/./.e}"
    fi
    check 'a refusal in JSON' 403 '~^\{"odata.error":\{"code":"' \
        -- ask_with_key SharedKeyLite "$wrong" "${get[@]}"
}

walk_account_signatures() {
    local name expected grant here_only=200 mismatch='403 code=AuthorizationProtocolMismatch'
    [[ $endpoint == https:* ]] || here_only="$mismatch"
    while IFS='|' read -r name expected grant; do
        # shellcheck disable=SC2086 # expectations and grants are words
        check "an account SAS for $name" $expected \
            -- ask_as "$(account_sas $grant)" "${get[@]}"
    done <<EOF
everything|200|
reading|200|sp=r
only writing|403 code=AuthorizationPermissionMismatch|sp=a
no more|403 code=AuthenticationFailed|se=$(in_hours -1)
not yet|403 code=AuthenticationFailed|st=$(in_hours 1) se=$(in_hours 2)
since an hour|200|st=$(in_hours -1)
this address|200|sip=127.0.0.1
a range with this address|200|sip=127.0.0.0-127.0.0.255
another address|403 code=AuthorizationSourceIPMismatch|sip=10.0.0.1
another range|403 code=AuthorizationSourceIPMismatch|sip=10.0.0.1-10.0.0.9
both protocols|200|spr=https,http
HTTPS|$here_only|spr=https
blobs|403 code=AuthorizationServiceMismatch|ss=b
blobs and tables|200|ss=bt
only the service|403 code=AuthorizationResourceTypeMismatch|srt=s
EOF
    local signed
    signed="$(account_sas sp=r)"
    check 'a grant that was changed after signing is refused' 403 \
        code=AuthenticationFailed -- ask_as "${signed/sp=r/sp=raud}" "${get[@]}"
    check 'no expiry is refused' 403 code=AuthenticationFailed \
        -- ask_as "$(account_sas se=)" "${get[@]}"
}

walk_table_signatures() {
    local operation sp
    local -A requests=(
        [get]="GET (PartitionKey='p',RowKey='r')" [query]='GET ()'
        [insert]='POST  -d {"PartitionKey":"p","RowKey":"new"}'
        [update]="PUT (PartitionKey='p',RowKey='r') -H If-Match:* -d {}"
        [merge]="MERGE (PartitionKey='p',RowKey='r') -H If-Match:* -d {}"
        [upsert]="PUT (PartitionKey='p',RowKey='r') -d {}"
        [delete]="DELETE (PartitionKey='p',RowKey='new') -H If-Match:*"
    )
    for sp in get=r query=r insert=a update=u merge=u upsert=au delete=d; do
        operation="${sp%=*}" sp="${sp#*=}"
        local method path options
        read -r method path options <<<"${requests[$operation]}"
        # An insert has no path of its own.
        [[ $path == -d ]] && path='' options="-d $options"
        # shellcheck disable=SC2086 # the options are words
        check "$operation with a table SAS for $sp" '200|201|204' \
            -- ask_as "$(table_sas "$table" sp=$sp)" "$method" "/$table$path" $options
        # shellcheck disable=SC2086
        check "$operation with a table SAS for all but $sp is refused" 403 \
            code=AuthorizationPermissionMismatch -- ask_as \
            "$(table_sas "$table" "sp=$(tr -d "$sp" <<<raud)")" "$method" "/$table$path" $options
    done
    check 'a table SAS for another address' 403 code=AuthorizationSourceIPMismatch \
        -- ask_as "$(table_sas "$table" sip=10.0.0.1)" "${get[@]}"
    check 'a table SAS opens no other table' 403 \
        -- ask_as "$(table_sas "${table}x")" "${get[@]}"
    check 'a table SAS does not list tables' 403 \
        -- ask_as "$(table_sas "$table")" GET /Tables
}

walk_ranges() {
    local partition row
    for partition in a b c; do
        for row in 1 2 3; do
            put_entity "$partition" "$row"
        done
    done
    local range=(spk=a srk=2 epk=b erk=2) sas
    sas="$(table_sas "$table" "${range[@]}")"
    ask_as "$sas" GET "/$table()?\$select=PartitionKey,RowKey"
    verdict 'a table SAS for a range shows no more' ' 2 3 1 2' "$(row_keys)"
    check 'a table SAS for a range does not read outside' '403|404' \
        -- ask_as "$sas" GET "/$table(PartitionKey='a',RowKey='1')"
    check 'a table SAS for a range does not write outside' 403 \
        -- ask_as "$sas" PUT "/$table(PartitionKey='b',RowKey='3')" -d '{}'
    check 'a table SAS for a range does not insert outside' 403 \
        -- ask_as "$sas" POST "/$table" -d '{"PartitionKey":"c","RowKey":"9"}'
    check 'a table SAS for a range does not delete outside' 403 \
        -- ask_as "$sas" DELETE "/$table(PartitionKey='c',RowKey='1')" -H 'If-Match: *'
    check 'a table SAS for a range reads within' 200 \
        -- ask_as "$sas" GET "/$table(PartitionKey='b',RowKey='1')"
    check 'a table SAS for a range writes within' 204 \
        -- ask_as "$sas" PUT "/$table(PartitionKey='b',RowKey='2')" -d '{}'
}
