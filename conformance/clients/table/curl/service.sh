# The service itself: properties, CORS, statistics; and the access policies of a table.
# shellcheck shell=bash

walk_service() {
    local before
    if [ -n "$cosmos" ]; then
        walk_cosmos
        return
    fi
    check 'properties' 200 'Content-Type:^application/xml' '~<Logging>' '~<HourMetrics>' \
        '~<MinuteMetrics>' '~<Cors' -- properties GET
    before="$body"
    walk_properties
    walk_cors
    properties PUT -d "$before"
    walk_statistics
    walk_policies
}

# What Table storage has and Cosmos has not.
walk_cosmos() {
    new_table
    local method refused=(501 'Content-Type:^application/xml' 'x-ms-error-code:^NotImplemented$')
    for method in GET PUT; do
        check "$method of the properties" "${refused[@]}" -- properties "$method"
        check "$method of access policies" "${refused[@]}" -- policies "$method"
    done
    check 'statistics' "${refused[@]}" -- ask_url GET \
        "$endpoint-secondary/?restype=service&comp=stats&$signature"
    check 'a preflight is refused' 403 x-ms-error-code:CorsPreflightFailure \
        -- preflight https://a.example GET content-type
}

# properties METHOD [CURL OPTION...]
properties() {
    local method="$1"
    shift
    ask "$method" '/?restype=service&comp=properties' -H 'Accept: application/xml' \
        -H 'Content-Type: application/xml' "$@"
}

# in_properties XML: a document with this part of the properties.
in_properties() {
    echo '<?xml version="1.0" encoding="utf-8"?>'
    echo "<StorageServiceProperties>$1</StorageServiceProperties>"
}

walk_properties() {
    local retention='<RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy>'
    local logging='<Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read>'
    logging+="<Write>true</Write>$retention</Logging>"
    local hours='<HourMetrics><Version>1.0</Version><Enabled>true</Enabled>'
    hours+="<IncludeAPIs>false</IncludeAPIs>$retention</HourMetrics>"
    check 'set logging only' 202 -- properties PUT -d "$(in_properties "$logging")"
    check 'set metrics only' 202 -- properties PUT -d "$(in_properties "$hours")"
    check 'both were kept' 200 '~<Delete>true</Delete>' '~<Read>false</Read>' \
        '~<HourMetrics><Version>1.0</Version><Enabled>true</Enabled>' '~<Days>5</Days>' \
        -- properties GET
    check 'what is no XML is refused' 400 'x-ms-error-code:^InvalidXml' \
        -- properties PUT -d '<StorageServiceProperties><Logging>'
}

# preflight ORIGIN METHOD HEADERS: what a browser asks before it asks.
preflight() {
    ask_as '' OPTIONS "/$table" -H "Origin: $1" -H "Access-Control-Request-Method: $2" \
        -H "Access-Control-Request-Headers: $3"
}

walk_cors() {
    local rule origin='https://a.example'
    rule="<CorsRule><AllowedOrigins>$origin</AllowedOrigins>"
    rule+='<AllowedMethods>GET,PUT</AllowedMethods>'
    rule+='<AllowedHeaders>x-ms-meta-*,content-type</AllowedHeaders>'
    rule+='<ExposedHeaders>x-ms-*</ExposedHeaders><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule>'
    new_table
    check 'remove the CORS rules only' 202 \
        -- properties PUT -d "$(in_properties '<Cors/>')"
    check 'a preflight without rules is refused' 403 x-ms-error-code:CorsPreflightFailure \
        -- preflight "$origin" GET content-type
    check 'set the CORS rules only' 202 \
        -- properties PUT -d "$(in_properties "<Cors>$rule</Cors>")"
    check 'the CORS rules are there' 200 "~<AllowedOrigins>$origin</AllowedOrigins>" \
        -- properties GET
    check 'a preflight' 200 "Access-Control-Allow-Origin:^$origin$" \
        'Access-Control-Allow-Methods:GET' 'Access-Control-Allow-Headers:content-type' \
        'Access-Control-Max-Age:^60$' -- preflight "$origin" GET content-type,x-ms-meta-a
    check 'a preflight from elsewhere is refused' 403 \
        x-ms-error-code:CorsPreflightFailure -- preflight https://b.example GET content-type
    check 'a preflight of another method is refused' 403 \
        x-ms-error-code:CorsPreflightFailure -- preflight "$origin" DELETE content-type
    check 'a preflight of another header is refused' 403 \
        x-ms-error-code:CorsPreflightFailure -- preflight "$origin" GET x-other
    check 'a request from there' 200 "Access-Control-Allow-Origin:^$origin$" \
        Access-Control-Expose-Headers:x-ms- -- GET "/$table()" -H "Origin: $origin"
    check 'a request from elsewhere' 200 Access-Control-Allow-Origin:- \
        -- GET "/$table()" -H 'Origin: https://b.example'
}

walk_statistics() {
    local stats='/?restype=service&comp=stats'
    check 'statistics of the secondary' 200 '~<Status>live</Status>' '~<LastSyncTime>' \
        -- ask_url GET "$endpoint-secondary$stats&$signature" -H 'Accept: application/xml'
    check 'statistics where the Python SDK asks for them' 200 '~<Status>live' \
        -- ask_url GET "$endpoint-secondary/$account$stats&$signature" -H 'Accept: application/xml'
    check 'the primary has no statistics' 400 x-ms-error-code:. \
        -- ask GET "$stats" -H 'Accept: application/xml'
}

# policies METHOD [CURL OPTION...]: the access policies of $table, which only the key opens.
policies() {
    local method="$1"
    shift
    ask_with_key SharedKeyLite "$key" "$method" "/$table?comp=acl" -H 'Accept: application/xml' \
        -H 'Content-Type: application/xml' "$@"
}

# identifiers XML...
identifiers() {
    echo "<SignedIdentifiers>$*</SignedIdentifiers>"
}

# identifier ID POLICY
identifier() {
    echo "<SignedIdentifier><Id>$1</Id><AccessPolicy>$2</AccessPolicy></SignedIdentifier>"
}

walk_policies() {
    new_table
    local times all='<Permission>raud</Permission>' reads='<Permission>r</Permission>'
    times="<Start>$(in_hours -1)</Start><Expiry>$(in_hours 1)</Expiry>"
    put_entity p r
    local get=(GET "/$table(PartitionKey='p',RowKey='r')") sas
    sas="$(table_sas "$table" si=reader sp= se=)"

    check 'no access policies at first' 200 '~<SignedIdentifiers' '!~<SignedIdentifier>' \
        -- policies GET
    check 'a SAS by a policy that is not there is refused' 403 code=AuthenticationFailed \
        -- ask_as "$sas" "${get[@]}"
    check 'set access policies' 204 -- policies PUT \
        -d "$(identifiers "$(identifier reader "$times$reads")" "$(identifier 'a b' "$all")")"
    # Again with all parts, which not every server lets a policy lack.
    policies PUT \
        -d "$(identifiers "$(identifier reader "$times$reads")" "$(identifier 'a b' "$times$all")")"
    check 'the access policies are there' 200 '~<Id>reader</Id>' '~<Id>a b</Id>' \
        '~<Permission>raud</Permission>' -- policies GET
    check 'a SAS by a policy' 200 -- ask_as "$sas" "${get[@]}"
    check 'a SAS by a policy does not more' 403 code=AuthorizationPermissionMismatch \
        -- ask_as "$sas" PUT "/$table(PartitionKey='p',RowKey='r')" -d '{}'
    check 'remove the access policies' 204 -- policies PUT -d "$(identifiers)"
    check 'a SAS by a policy that is gone is refused' 403 code=AuthenticationFailed \
        -- ask_as "$sas" "${get[@]}"
    check 'a sixth access policy is refused' 400 x-ms-error-code:InvalidXmlDocument \
        -- policies PUT -d "$(identifiers "$(
            for id in {1..6}; do identifier "$id" "$times$reads"; done
        )")"
    check 'policies of a missing table' 404 x-ms-error-code:. \
        -- ask_with_key SharedKeyLite "$key" GET "/${table}x?comp=acl" -H 'Accept: application/xml'
}
