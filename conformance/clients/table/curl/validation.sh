# Validation: what an entity may not be, and the code that says so.
# shellcheck shell=bash

walk_validation() {
    new_table
    local name codes content row=0
    local bad_key=InvalidInput,OutOfRangeInput bad_value=InvalidInput,InvalidValueType
    local long_key="$bad_key,KeyValueTooLarge,PropertyValueTooLarge"
    while IFS='|' read -r name codes content; do
        row=$((row + 1))
        [[ $content == *'"RowKey"'* ]] || content="\"RowKey\":\"$row\",$content"
        [[ $content == *'"PartitionKey"'* ]] || content="\"PartitionKey\":\"p\",$content"
        check "$name is refused" 400 "code=${codes//,/|}" \
            -- POST "/$table" -d "{$content}"
    done <<EOF
a slash in RowKey|$bad_key|"RowKey":"a/b"
a backslash in RowKey|$bad_key|"RowKey":"a\\\\b"
a number sign in RowKey|$bad_key|"RowKey":"a#b"
a question mark in RowKey|$bad_key|"RowKey":"a?b"
a tab in RowKey|$bad_key|"RowKey":"a\\tb"
a control character in RowKey|$bad_key|"RowKey":"a\\u0085b"
a slash in PartitionKey|$bad_key|"PartitionKey":"a/b"
a RowKey of 1025 characters|$long_key|"RowKey":"$(letters 1025)"
a RowKey that is a number|InvalidInput,InvalidValueType,PropertiesNeedValue|"RowKey":5
a RowKey that is null|PropertiesNeedValue|"RowKey":null
a name of 256 characters|PropertyNameTooLong|"$(letters 256)":1
a name with a hyphen|PropertyNameInvalid|"a-b":1
a name that begins with a digit|PropertyNameInvalid|"1a":1
a name with a dot|PropertyNameInvalid|"a.b":1
an empty name|PropertyNameInvalid,InvalidInput|"":1
a Guid that is none|$bad_value|"a@odata.type":"Edm.Guid","a":"nonsense"
a DateTime that is none|$bad_value|"a@odata.type":"Edm.DateTime","a":"nonsense"
an unknown type|$bad_value|"a@odata.type":"Edm.Decimal","a":"1"
an integer beyond Int32|$bad_value|"a":2147483648
an Int64 that is none|$bad_value|"a@odata.type":"Edm.Int64","a":"1.5"
a Double that is none|$bad_value|"a@odata.type":"Edm.Double","a":"nonsense"
a Binary that is none|$bad_value|"a@odata.type":"Edm.Binary","a":"!"
an object as a value|$bad_value|"a":{"b":1}
an array as a value|$bad_value|"a":[1]
a property twice|DuplicatePropertiesSpecified,InvalidInput|"a":1,"a":2
a text of 32 Ki characters and one|PropertyValueTooLarge|"a":"$(letters 32769)"
EOF
    walk_bodies
}

# letters COUNT: a text of this length.
letters() {
    printf "%${1}s" '' | tr ' ' x
}

# numbered COUNT VALUE: this many properties.
numbered() {
    seq --format "\"p%g\":$2" "$1" | paste -sd,
}

walk_bodies() {
    local keys='"PartitionKey":"p","RowKey"' file="$folder/entity"
    check 'no RowKey' 400 code=PropertiesNeedValue \
        -- POST "/$table" -d '{"PartitionKey":"p"}'
    check 'no PartitionKey' 400 code=PropertiesNeedValue \
        -- POST "/$table" -d '{"RowKey":"r"}'
    check 'what is no JSON is refused' 400 code=InvalidInput \
        -- POST "/$table" -d '{"Par'
    check 'what is no object is refused' 400 code=InvalidInput \
        -- POST "/$table" -d '[1]'
    check 'no body is refused' 400 code=InvalidInput -- POST "/$table" -d ''
    check '252 properties are fine' 201 \
        -- POST "/$table" -d "{$keys:\"252\",$(numbered 252 1)}"
    check '253 properties are refused' 400 code=TooManyProperties \
        -- POST "/$table" -d "{$keys:\"253\",$(numbered 253 1)}"
    echo "{$keys:\"large\",$(numbered 40 "\"$(letters 32000)\"")}" >"$file"
    check 'more than 1 MiB is refused' 400 code=EntityTooLarge \
        -- POST "/$table" -d "@$file"
    echo "{$keys:\"larger\",$(numbered 150 "\"$(letters 32000)\"")}" >"$file"
    check 'more than 4 MiB is refused' 413 code=RequestBodyTooLarge \
        -- POST "/$table" -d "@$file"
    check 'a name of a table in a URL' 400 code=InvalidResourceName \
        -- POST '/a%23b' -d "{$keys:\"r\"}"
}
