//! Structs that are read from JSON objects only: serde reads them from arrays, too, which Go does not.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A struct, or an enum with a tag, that must be an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct JsonObject<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = JsonObject<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(JsonObject)
            }
        }

        deserializer.deserialize_map(Object(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Point {
        x: u8,
    }

    #[test]
    fn arrays_are_not_objects() {
        let read = |text| serde_json::from_str::<JsonObject<Point>>(text).ok();
        assert_eq!(read(r#"{"x":1}"#), Some(JsonObject(Point { x: 1 })));
        for bad in ["[1]", "1", "null", r#"{"x":1,"x":1}"#, r#"{"x":1,"y":1}"#] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
