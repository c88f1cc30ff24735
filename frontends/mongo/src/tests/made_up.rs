//! Definitions made up at random: mostly such as are accepted, with every type of value, odd names
//! and deep nesting.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, Regex, Timestamp, doc};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// Makes up definitions, the same ones for the same number.
pub(super) struct MadeUp {
    random: StdRng,
}

const NAMES: &[&str] = &[
    "a",
    "b",
    "a.b",
    "_id",
    "_ts",
    "ä☃",
    "𐍈",
    "a b",
    "0",
    "x.0.y",
    "A",
    "\u{301}",
    "'",
    "\"",
    "\\",
    "{}",
    "null",
    "$",
    "$ref",
    "",
    "a..b",
    ".",
    "system",
    "__proto__",
    "\u{feff}",
    "\n",
    "%00",
];

impl MadeUp {
    pub(super) fn of(case: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(case),
        }
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    fn is(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    /// A name of a collection, an index or a field.
    pub(super) fn name(&mut self) -> String {
        match self.below(4) {
            0 => self.one(NAMES).to_owned(),
            1 => (0..=self.below(300)).map(|_| self.character()).collect(),
            _ => format!("n{}", self.below(1_000)),
        }
    }

    fn character(&mut self) -> char {
        let any = char::from_u32(self.random.random_range(1..0x11_0000));
        any.filter(|_| self.is(20)).unwrap_or('c')
    }

    /// A field that filters and keys may name.
    fn field(&mut self) -> String {
        const USUAL: &[&str] = &["a", "b", "a.b", "a.0", "ä☃", "x y", "_id", "_ts", "A"];
        if self.is(90) {
            return self.one(USUAL).to_owned();
        }
        self.name()
    }

    fn double(&mut self) -> f64 {
        const ODD: [f64; 8] = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            f64::MIN_POSITIVE,
            f64::MAX,
            0.1,
            9_007_199_254_740_993.0,
        ];
        ODD[self.below(ODD.len())]
    }

    fn scalar(&mut self) -> Bson {
        let text = |text: &str| text.try_into().unwrap();
        match self.below(20) {
            0 => Bson::Double(self.double()),
            1 => Bson::String(self.name()),
            2 => Bson::Binary(Binary {
                subtype: BinarySubtype::from(self.random.random::<u8>()),
                bytes: vec![7; self.below(40)],
            }),
            3 => Bson::Undefined,
            4 => Bson::ObjectId(ObjectId::from_bytes(self.random.random())),
            5 => Bson::Boolean(self.is(50)),
            6 => Bson::DateTime(DateTime::from_millis(self.random.random())),
            7 => Bson::Null,
            8 => Bson::RegularExpression(Regex {
                pattern: text(self.one(&["a", "^(a|b)+$", "\\d", "["])),
                options: text(self.one(&["", "i", "imx", "q"])),
            }),
            9 => Bson::JavaScriptCode("f()".to_owned()),
            10 => Bson::Symbol(self.name()),
            11 => Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope {
                code: "f()".to_owned(),
                scope: doc! { "x": 1 },
            }),
            12 => Bson::Int32(self.random.random()),
            13 => Bson::Timestamp(Timestamp {
                time: self.random.random(),
                increment: self.random.random(),
            }),
            14 => Bson::Int64(self.random.random()),
            15 => Bson::Decimal128(bson::Decimal128::from_bytes(self.random.random())),
            16 => Bson::MinKey,
            17 => Bson::MaxKey,
            18 => Bson::Int32(i32::try_from(self.below(5)).unwrap()),
            _ => Bson::String("x".repeat(self.below(200))),
        }
    }

    /// Any value.
    fn value(&mut self, depth: usize) -> Bson {
        let depth = depth.min(6);
        match self.below(10) {
            0 if depth > 0 => {
                let parts = 0..self.below(4);
                let parts = parts.map(|_| (self.name(), self.value(depth - 1)));
                Bson::Document(parts.collect())
            }
            1 if depth > 0 => {
                let parts = 0..self.below(4);
                Bson::Array(parts.map(|_| self.value(depth - 1)).collect())
            }
            _ => self.scalar(),
        }
    }

    fn filters(&mut self, depth: usize) -> Vec<Bson> {
        // So few that deep ones do not grow beyond measure.
        let parts = 0..=usize::from(self.is(20));
        parts.map(|_| Bson::from(self.filter(depth))).collect()
    }

    /// A query.
    fn filter(&mut self, depth: usize) -> Document {
        let below = depth.saturating_sub(1);
        let mut filter = Document::new();
        for _ in 0..=self.below(2) {
            match self.below(if depth > 0 { 10 } else { 6 }) {
                0 | 1 => {
                    let (field, value) = (self.field(), self.value(below));
                    filter.insert(field, value);
                }
                2..=5 => {
                    let field = self.field();
                    filter.insert(field, self.predicate(below));
                }
                6 | 7 => {
                    let logical = self.one(&["$and", "$or", "$nor"]);
                    filter.insert(logical, self.filters(below));
                }
                8 => {
                    filter.insert("$expr", self.expression(below.min(4)));
                }
                _ => {
                    filter.insert("$jsonSchema", self.schema(below.min(4)));
                }
            }
        }
        filter
    }

    /// Operators on a field.
    fn predicate(&mut self, depth: usize) -> Document {
        let compared = self.one(&["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
        let below = depth.saturating_sub(1);
        match self.below(11) {
            0 => doc! { "$in": [self.value(below), self.value(below)] },
            1 => doc! { "$nin": [self.value(below)] },
            2 => doc! { "$exists": self.is(70) },
            3 => doc! { "$type": self.one(&["string", "number", "object", "bool", "date"]) },
            4 => doc! { "$elemMatch": self.filter(below) },
            5 => doc! { "$not": { compared: self.value(below) } },
            6 => doc! { "$mod": [3, 1] },
            7 => doc! { "$size": i32::try_from(self.below(4)).unwrap() },
            8 => doc! { "$all": [self.value(below)] },
            9 => doc! { "$bitsAllSet": [1, 5] },
            _ => doc! { compared: self.value(below) },
        }
    }

    fn expression(&mut self, depth: usize) -> Bson {
        if depth == 0 {
            return Bson::from(self.one(&["$a", "$b.c", "$$ROOT", "x"]));
        }
        let operator = self.one(&["$eq", "$gt", "$and", "$or", "$add", "$concat", "$ifNull"]);
        let (one, other) = (self.expression(depth - 1), self.expression(depth - 1));
        doc! { operator: [one, other] }.into()
    }

    fn schema(&mut self, depth: usize) -> Document {
        let below = depth.saturating_sub(1);
        let mut schema = doc! {};
        for _ in 0..=self.below(3) {
            match self.below(10) {
                0 => schema.insert("bsonType", self.one(&["object", "string", "int", "array"])),
                1 => schema.insert("required", vec![Bson::from(self.field())]),
                2 if depth > 0 => {
                    let field = self.field();
                    schema.insert("properties", doc! { field: self.schema(below) })
                }
                3 if depth > 0 => schema.insert("items", self.schema(below)),
                4 if depth > 0 => schema.insert("anyOf", vec![Bson::from(self.schema(below))]),
                5 if depth > 0 => schema.insert("not", self.schema(below)),
                6 => schema.insert("enum", vec![self.value(below)]),
                7 => schema.insert("minimum", self.double()),
                8 => schema.insert("pattern", self.one(&["^a", "(", "b$"])),
                _ => schema.insert("title", self.name()),
            };
        }
        schema
    }

    fn collation(&mut self) -> Document {
        let locale = self.one(&["simple", "en", "de", "fr_CA", "zh", "sv", "nowhere"]);
        let mut collation = doc! { "locale": locale };
        if locale != "simple" || self.is(5) {
            let strength = i32::try_from(self.below(6)).unwrap();
            for (name, value) in [
                ("strength", Bson::from(strength)),
                ("caseLevel", Bson::from(self.is(50))),
                ("numericOrdering", Bson::from(self.is(50))),
                (
                    "caseFirst",
                    Bson::from(self.one(&["off", "upper", "lower"])),
                ),
                (
                    "alternate",
                    Bson::from(self.one(&["shifted", "non-ignorable"])),
                ),
                ("backwards", Bson::from(self.is(50))),
            ] {
                if self.is(30) {
                    collation.insert(name, value);
                }
            }
        }
        collation
    }

    /// The options of a new collection or view.
    pub(super) fn options(&mut self) -> Document {
        let mut options = Document::new();
        // Seldom, but then deeper than anybody writes by hand.
        let depth = if self.is(3) { 60 } else { self.below(6) };
        if self.is(15) {
            options.insert("viewOn", self.name());
            let stages =
                (0..self.below(4)).map(|_| Bson::from(doc! { "$match": self.filter(depth) }));
            options.insert("pipeline", stages.collect::<Vec<_>>());
            return options;
        }
        if self.is(60) {
            options.insert("validator", self.filter(depth));
        }
        if self.is(30) {
            options.insert("validationLevel", self.one(&["off", "strict", "moderate"]));
        }
        if self.is(30) {
            options.insert(
                "validationAction",
                self.one(&["error", "warn", "errorAndLog"]),
            );
        }
        if self.is(20) {
            options.insert("collation", self.collation());
        }
        if self.is(10) {
            options.insert("capped", true);
            options.insert("size", self.random.random_range(1..1i64 << 50));
            options.insert("max", self.random.random_range(-5..i64::from(i32::MAX)));
        } else if self.is(10) {
            let name = self.name();
            let clustered = doc! { "key": { "_id": 1 }, "unique": true, "name": name };
            options.insert("clusteredIndex", clustered);
            options.insert(
                "expireAfterSeconds",
                self.random.random_range(0..1i64 << 31),
            );
        }
        if self.is(10) {
            options.insert(
                "changeStreamPreAndPostImages",
                doc! { "enabled": self.is(50) },
            );
        }
        if self.is(10) {
            let engine = doc! { "wiredTiger": { "configString": "block_compressor=zlib" } };
            options.insert("storageEngine", engine);
        }
        options
    }

    /// What `collMod` may change.
    pub(super) fn changes(&mut self) -> Document {
        let depth = self.below(5);
        match self.below(3) {
            0 => doc! { "validator": self.filter(depth) },
            1 => doc! { "validationLevel": "moderate", "validationAction": "warn" },
            _ => doc! { "viewOn": self.name(), "pipeline": [{ "$match": self.filter(depth) }] },
        }
    }

    /// An index.
    pub(super) fn index(&mut self) -> Document {
        let mut key = Document::new();
        for _ in 0..=self.below(3) {
            let field = if self.is(10) {
                "$**".to_owned()
            } else {
                self.field()
            };
            let order = match self.below(8) {
                0 => Bson::from("hashed"),
                1 => Bson::Double(self.double()),
                2 => self.scalar(),
                3 => Bson::Int64(-1),
                _ => Bson::Int32(1),
            };
            key.insert(field, order);
        }
        let mut index = doc! { "key": key, "name": self.name() };
        if self.is(20) {
            index.insert("unique", self.is(80));
        }
        if self.is(20) {
            index.insert("sparse", Bson::Double(self.double()));
        }
        if self.is(20) {
            index.insert("hidden", self.is(80));
        }
        if self.is(30) {
            let filter = self.filter(3);
            index.insert("partialFilterExpression", filter);
        }
        if self.is(20) {
            index.insert("collation", self.collation());
        }
        if self.is(20) {
            let seconds = [Bson::Double(self.double()), Bson::Int64(60), Bson::Int32(0)];
            index.insert("expireAfterSeconds", seconds[self.below(3)].clone());
        }
        if self.is(20) {
            let field = self.field();
            index.insert("wildcardProjection", doc! { field: i32::from(self.is(50)) });
        }
        if self.is(10) {
            index.insert("storageEngine", doc! { "wiredTiger": self.value(4) });
        }
        if self.is(10) {
            index.insert(
                self.one(&["background", "prepareUnique", "v", "ns", "dropDups"]),
                1,
            );
        }
        index
    }

    pub(super) fn user(&mut self) -> Document {
        let name = self.name();
        let mut data = doc! { "x": self.value(5) };
        data.insert(self.name(), self.value(3));
        let mut user = doc! { "createUser": name, "pwd": "secret", "roles": ["read"],
        "customData": data, "mechanisms": ["SCRAM-SHA-1"] };
        self.restrict(&mut user);
        user
    }

    /// Where a user or a role may be used from.
    fn restrict(&mut self, whom: &mut Document) {
        const RANGES: &[&str] = &["127.0.0.1", "10.0.0.0/8", "::/0", "2001:db8::1", "nowhere"];
        if self.is(60) {
            return;
        }
        let each = (0..self.below(3)).map(|_| {
            let mut restriction = Document::new();
            for name in ["clientSource", "serverAddress"] {
                if self.is(60) {
                    let ranges = vec![Bson::from(self.one(RANGES)), Bson::from("::1")];
                    restriction.insert(name, ranges);
                }
            }
            Bson::from(restriction)
        });
        whom.insert("authenticationRestrictions", each.collect::<Vec<_>>());
    }

    /// Where a collection's documents lie.
    pub(super) fn shard_key(&mut self) -> Document {
        let field = self.field();
        match self.below(4) {
            0 => doc! { field: 1 },
            1 => doc! { field: "hashed", "_id": 1 },
            2 => doc! { "a": "hashed", "b": -1 },
            _ => doc! { field: "hashed" },
        }
    }

    pub(super) fn role(&mut self) -> Document {
        let resource = match self.below(4) {
            0 => doc! { "cluster": true },
            1 => doc! { "anyResource": true },
            _ => doc! { "db": self.one(&["", "db", "ä"]), "collection": self.name() },
        };
        let actions = vec![Bson::from(self.one(&[
            "find",
            "insert",
            "anyAction",
            "serverStatus",
        ]))];
        let privilege = doc! { "resource": resource, "actions": actions };
        let mut role =
            doc! { "createRole": self.name(), "privileges": [privilege], "roles": ["read"] };
        self.restrict(&mut role);
        role
    }
}
