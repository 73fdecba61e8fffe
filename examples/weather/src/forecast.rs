//! `get-forecast`: the weather to come at a place.

use std::{fmt::Write as _, time::Duration};

use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use crate::upstream::{Failure, Upstream};

pub(crate) const NAME: &str = "get-forecast";
pub(crate) const DESCRIPTION: &str = "Get weather forecast for a location";

/// So many periods are told, half days mostly, and how many more there are: a week.
const MOST: usize = 14;

/// Which forecast belongs to a place hardly ever changes.
const PLACES_HOLD: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    latitude: Degrees<90>,
    longitude: Degrees<180>,
}

/// Degrees between `-MOST` and `MOST`, to four decimals, some ten metres: the service takes no
/// more.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Degrees<const MOST: u8>(f64);

/// A number that is no latitude or longitude.
#[derive(Debug, thiserror::Error)]
#[error("expected a number between -{0} and {0}")]
struct OutOfRange(u8);

impl<const MOST: u8> TryFrom<f64> for Degrees<MOST> {
    type Error = OutOfRange;

    fn try_from(degrees: f64) -> Result<Self, OutOfRange> {
        let most = f64::from(MOST);
        if !(-most..=most).contains(&degrees) {
            return Err(OutOfRange(MOST));
        }
        // Zero is not negative.
        Ok(Self((degrees * 1e4).round() / 1e4 + 0.0))
    }
}

pub(crate) fn input_schema() -> Value {
    let degrees = |most: i32, what: &str| {
        let description = format!("{what} of the location, in degrees; United States only.");
        json!({"type": "number", "minimum": -most, "maximum": most, "description": description})
    };
    json!({
        "type": "object",
        "properties": {
            "latitude": degrees(90, "Latitude"),
            "longitude": degrees(180, "Longitude"),
        },
        "required": ["latitude", "longitude"],
        "additionalProperties": false,
    })
}

pub(crate) fn output_schema() -> Value {
    let (text, number) = (json!({"type": "string"}), json!({"type": "number"}));
    json!({
        "type": "object",
        "properties": {
            "latitude": number,
            "longitude": number,
            "periods": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": text, "temperature": number, "temperatureUnit": text,
                        "windSpeed": text, "windDirection": text, "shortForecast": text,
                        "detailedForecast": text,
                    },
                    "additionalProperties": false,
                },
            },
            "total": {"type": "integer", "description": "How many periods there are, told or not."},
        },
        "required": ["latitude", "longitude", "periods", "total"],
        "additionalProperties": false,
    })
}

/// What the service says of a place.
#[derive(Deserialize)]
struct Place {
    properties: PlaceProperties,
}

#[derive(Deserialize)]
struct PlaceProperties {
    /// The URL of its forecast.
    forecast: String,
}

/// A forecast, as far as it is of use here.
#[derive(Deserialize)]
struct Document {
    properties: Periods,
}

#[derive(Deserialize)]
struct Periods {
    periods: Vec<Period>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Period {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature_unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wind_speed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wind_direction: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    short_forecast: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detailed_forecast: Option<String>,
}

/// The forecast of a place.
#[derive(Debug, Serialize)]
pub(crate) struct Forecast {
    latitude: f64,
    longitude: f64,
    periods: Vec<Period>,
    total: usize,
}

/// Asks which forecast belongs to the place, and then for it.
///
/// # Errors
/// When the service does not answer, or does not cover the place.
pub(crate) async fn get(upstream: &Upstream, arguments: Arguments) -> Result<Forecast, Failure> {
    let deadline = upstream.deadline();
    let (latitude, longitude) = (arguments.latitude.0, arguments.longitude.0);
    let place = upstream.at(&format!("/points/{latitude},{longitude}"), None);
    let asked = upstream.ask::<Place>(&place, PLACES_HOLD, deadline).await;
    let place = asked.map_err(|failure| match failure {
        Failure::Status(StatusCode::NOT_FOUND) => {
            Failure::NotCovered(format!("{latitude}, {longitude}"))
        }
        failure => failure,
    })?;
    let forecast = upstream.referred(&place.properties.forecast)?;
    let document: Document = upstream.ask(&forecast, Duration::ZERO, deadline).await?;
    let mut periods = document.properties.periods;
    let total = periods.len();
    periods.truncate(MOST);
    Ok(Forecast {
        latitude,
        longitude,
        periods,
        total,
    })
}

impl Forecast {
    /// The forecast as it is read by people and models.
    pub(crate) fn text(&self) -> String {
        let (latitude, longitude) = (self.latitude, self.longitude);
        if self.periods.is_empty() {
            return format!("No forecast periods for {latitude}, {longitude}");
        }
        let periods: Vec<String> = self.periods.iter().map(Period::text).collect();
        let periods = periods.join("\n");
        let mut text = format!("Forecast for {latitude}, {longitude}:\n\n{periods}");
        if self.total > self.periods.len() {
            let more = self.total - self.periods.len();
            write!(text, "\n{more} more").expect("writing to a string does not fail");
        }
        text
    }
}

impl Period {
    fn text(&self) -> String {
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "Unknown".to_owned());
        let temperature = match (&self.temperature, &self.temperature_unit) {
            (Some(degrees), Some(unit)) => format!("{degrees}°{unit}"),
            // What the service means when it says nothing.
            (Some(degrees), None) => format!("{degrees}°F"),
            (None, _) => "Unknown".to_owned(),
        };
        let direction = self.wind_direction.as_deref().unwrap_or_default();
        let wind = format!("Wind: {} {direction}", known(&self.wind_speed));
        [
            format!("{}:", known(&self.name)),
            format!("Temperature: {temperature}"),
            wind.trim_end().to_owned(),
            known(&self.short_forecast),
            "---".to_owned(),
        ]
        .join("\n")
    }
}
