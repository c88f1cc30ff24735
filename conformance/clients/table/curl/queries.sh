# Queries: filters, selections, pages.
# shellcheck shell=bash

walk_queries() {
    new_table
    put_filtered_entities
    walk_filters
    check 'without parentheses' 200 '~"RowKey":"4"' -- GET "/$table"
    check 'an empty filter' 200 '~"RowKey":"4"' -- GET "/$table()?\$filter="
    check 'select' 200 '~"text":"apple"' '!~"count"' '!~"Timestamp"' \
        -- GET "/$table()?\$select=text"
    check 'select two' 200 '~"text":"apple"' '~"RowKey":"1"' '!~"Timestamp"' \
        -- GET "/$table()?\$select=text,RowKey"
    walk_pages
}

# The entities that filters.txt describes.
put_filtered_entities() {
    local row text big ratio flag bytes
    while IFS='|' read -r row text big ratio flag bytes; do
        put_entity p "$row" "\"text\":\"$text\",\"count\":$row,
            \"big@odata.type\":\"Edm.Int64\",\"big\":\"$big\",\"ratio\":$ratio,\"flag\":$flag,
            \"at@odata.type\":\"Edm.DateTime\",\"at\":\"$((2019 + row))-01-01T00:00:00Z\",
            \"uid@odata.type\":\"Edm.Guid\",\"uid\":\"00000000-0000-0000-0000-00000000000$row\",
            \"bytes@odata.type\":\"Edm.Binary\",\"bytes\":\"$bytes\""
    done <<'EOF'
1|apple|1099511627776|0.5|true|AQ==
2|Banana|-1099511627776|1.5|false|Ag==
3|it's|0|-2.25|true|A/8=
EOF
    put_entity p 4
}

walk_filters() {
    local line filter expected
    while IFS= read -r line; do
        [[ -z $line || $line == '#'* ]] && continue
        filter="${line% =>*}" expected="${line##* =>}"
        if [[ $expected == ' 400 '* ]]; then
            check "$filter" 400 "code=${expected# 400 }" \
                -- GET "/$table()?\$filter=$(encode "$filter")"
        else
            ask GET "/$table()?\$filter=$(encode "$filter")"
            verdict "$filter" "200$expected" "$status$(row_keys)"
        fi
    done <"$here/../filters.txt"
}

# The row keys of the last answer, each after a space.
row_keys() {
    grep -o '"RowKey":"[^"]*"' <<<"$body" | sed 's/.*:"\(.*\)"/ \1/' | tr -d '\n'
}

walk_pages() {
    check '$top, and where to go on' 200 '~"RowKey":"2"' '!~"RowKey":"3"' \
        x-ms-continuation-NextPartitionKey:. x-ms-continuation-NextRowKey:. \
        -- GET "/$table()?\$top=2"
    local after
    after="NextPartitionKey=$(encode "$(header x-ms-continuation-NextPartitionKey)")"
    after+="&NextRowKey=$(encode "$(header x-ms-continuation-NextRowKey)")"
    check 'go on to the end' 200 '!~"RowKey":"2"' '~"RowKey":"3"' '~"RowKey":"4"' \
        x-ms-continuation-NextPartitionKey:- -- GET "/$table()?\$top=1000&$after"
    local top
    check '$top=0 asks for nothing' 200 '~"value":\[\]' -- GET "/$table()?\$top=0"
    if [ -n "$cosmos" ]; then
        check '$top=1001' 200 '~"RowKey":"4"' -- GET "/$table()?\$top=1001"
    else
        check '$top=1001 is refused' 400 'code=InvalidInput|OutOfRangeInput' \
            -- GET "/$table()?\$top=1001"
    fi
    for top in -1 many; do
        check "\$top=$top is refused" 400 'code=InvalidInput|OutOfRangeInput' \
            -- GET "/$table()?\$top=$top"
    done
}
