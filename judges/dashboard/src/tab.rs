//! A page of the browser: what a person sees of it, and what a person does with mouse and keys.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use chromiumoxide::{
    Browser, Page,
    cdp::browser_protocol::{
        emulation::SetDeviceMetricsOverrideParams,
        input::{
            DispatchKeyEventParams, DispatchKeyEventType, DispatchMouseEventParams,
            DispatchMouseEventType, InsertTextParams, MouseButton, SynthesizeScrollGestureParams,
        },
        network::SetCacheDisabledParams,
        page::CaptureScreenshotFormat,
    },
    keys,
    page::ScreenshotParams,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How long a page is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// How many moves a drag is made of.
const STEPS: u32 = 12;

/// Finds what is meant: by selector, where more than one fits the first that is seen, and of that, where
/// a text is given, the first with it.
const FIND: &str = "(selector, text) => [...document.querySelectorAll(selector)].find((one) => \
    one.checkVisibility() && (text === null || one.textContent.includes(text)))";

/// One page.
pub(crate) struct Tab(Page);

/// A place on the screen, in pixels.
#[derive(serde::Deserialize, Clone, Copy)]
pub(crate) struct Spot {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

impl Tab {
    pub(crate) async fn open(browser: &Browser, url: &str) -> Result<Self> {
        let page = browser
            .new_page(url)
            .await
            .with_context(|| format!("opening {url}"))?;
        Ok(Self(page))
    }

    /// From here on nothing is taken from the browser's cache.
    pub(crate) async fn forget(&self) -> Result<()> {
        let forgets = self.0.execute(SetCacheDisabledParams::new(true)).await;
        forgets.context("switching the cache off")?;
        Ok(())
    }

    /// A script that runs before all others of each page that is loaded from here on.
    pub(crate) async fn before(&self, script: &str) -> Result<()> {
        let added = self.0.evaluate_on_new_document(script).await;
        added.context("adding a script")?;
        Ok(())
    }

    /// A screen of this width and height, in pixels.
    pub(crate) async fn size(&self, (width, height): (u32, u32)) -> Result<()> {
        let size = SetDeviceMetricsOverrideParams::new(width, height, 1.0, false);
        self.0.execute(size).await.context("changing the screen")?;
        Ok(())
    }

    pub(crate) async fn go(&self, url: &str) -> Result<()> {
        let gone = self.0.goto(url).await;
        gone.with_context(|| format!("opening {url}"))?;
        Ok(())
    }

    /// Scrolls what is seen, as with a wheel, by so many pixels at so many a second; negative is down.
    pub(crate) async fn scroll(&self, selector: &str, by: f64, speed: i64) -> Result<()> {
        let at = self.spot(selector, None).await?;
        let mut gesture = SynthesizeScrollGestureParams::new(at.x, at.y);
        gesture.y_distance = Some(by);
        gesture.speed = Some(speed);
        self.0.execute(gesture).await.context("scrolling")?;
        Ok(())
    }

    pub(crate) async fn close(self) -> Result<()> {
        self.0.close().await.context("closing a page")
    }

    /// What an expression of JavaScript is in the page.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, expression: &str) -> Result<T> {
        let found = self.0.evaluate(expression).await;
        let found = found.with_context(|| format!("asking for {expression}"))?;
        found
            .into_value()
            .with_context(|| format!("{expression} is something else"))
    }

    /// Waits until an expression of JavaScript is true in the page, which looks once a frame.
    pub(crate) async fn until(&self, expression: &str) -> Result<()> {
        let asked = format!(
            "new Promise((done) => {{ const end = performance.now() + {}; const look = () => {{ let is; \
             try {{ is = Boolean({expression}); }} catch {{ is = false; }} if (is) done(true); else if \
             (performance.now() > end) done(false); else requestAnimationFrame(look); }}; look(); }})",
            PATIENCE.as_millis()
        );
        let begun = Instant::now();
        let comes = loop {
            match self.ask(&asked).await {
                // The page was left for another one meanwhile.
                Err(_) if begun.elapsed() < PATIENCE => {}
                comes => break comes?,
            }
        };
        if comes {
            return Ok(());
        }
        let shown: String = self.ask("document.body.innerText.slice(0, 2000)").await?;
        let words: Vec<&str> = shown.split_whitespace().collect();
        bail!(
            "it does not come to {expression}; the page shows: {}",
            words.join(" ")
        )
    }

    /// Waits until something is seen, which has this text where one is given.
    pub(crate) async fn sees(&self, selector: &str, text: Option<&str>) -> Result<()> {
        self.until(&format!("({FIND})({}, {})", json!(selector), json!(text)))
            .await
    }

    /// Waits until nothing of the kind is seen.
    pub(crate) async fn sees_no(&self, selector: &str) -> Result<()> {
        self.until(&format!("!({FIND})({}, null)", json!(selector)))
            .await
    }

    /// The middle of what is seen, after it was brought into view.
    async fn spot(&self, selector: &str, text: Option<&str>) -> Result<Spot> {
        let scroll = "one.scrollIntoView({ block: 'nearest', inline: 'nearest' });";
        self.place(selector, text, scroll).await
    }

    /// The middle of what is seen, after something was done with it.
    async fn place(&self, selector: &str, text: Option<&str>, first: &str) -> Result<Spot> {
        self.sees(selector, text).await?;
        let found = format!("({FIND})({}, {})", json!(selector), json!(text));
        let spot = format!(
            "(() => {{ const one = {found}; {first} const box = one.getBoundingClientRect(); return {{ x: box.x + \
             box.width / 2, y: box.y + box.height / 2 }}; }})()"
        );
        self.ask(&spot).await
    }

    pub(crate) async fn click(&self, selector: &str, text: Option<&str>) -> Result<()> {
        let at = self.spot(selector, text).await?;
        self.mouse(DispatchMouseEventType::MouseMoved, at, false)
            .await?;
        self.mouse(DispatchMouseEventType::MousePressed, at, true)
            .await?;
        self.mouse(DispatchMouseEventType::MouseReleased, at, false)
            .await
    }

    /// Drags one thing onto another.
    pub(crate) async fn drag(&self, from: &str, to: &str) -> Result<()> {
        let from = self.grab(from).await?;
        let at = self.carry(from, to).await?;
        self.release(at).await
    }

    /// Presses the button on one thing; where that is.
    pub(crate) async fn grab(&self, what: &str) -> Result<Spot> {
        let at = self.spot(what, None).await?;
        self.mouse(DispatchMouseEventType::MouseMoved, at, false)
            .await?;
        self.mouse(DispatchMouseEventType::MousePressed, at, true)
            .await?;
        Ok(at)
    }

    /// Drags what was grabbed onto another thing, which has to be in sight; where that is.
    pub(crate) async fn carry(&self, from: Spot, to: &str) -> Result<Spot> {
        let onto = self.place(to, None, "").await?;
        for step in 1..=STEPS {
            let part = f64::from(step) / f64::from(STEPS);
            let at = Spot {
                x: from.x + (onto.x - from.x) * part,
                y: from.y + (onto.y - from.y) * part,
            };
            self.mouse(DispatchMouseEventType::MouseMoved, at, true)
                .await?;
        }
        Ok(onto)
    }

    /// Lets go.
    pub(crate) async fn release(&self, at: Spot) -> Result<()> {
        self.mouse(DispatchMouseEventType::MouseReleased, at, false)
            .await
    }

    async fn mouse(&self, kind: DispatchMouseEventType, at: Spot, is_pressed: bool) -> Result<()> {
        let is_click = !matches!(kind, DispatchMouseEventType::MouseMoved);
        let mut event = DispatchMouseEventParams::new(kind, at.x, at.y);
        event.buttons = Some(i64::from(is_pressed));
        if is_click || is_pressed {
            event.button = Some(MouseButton::Left);
        }
        if is_click {
            event.click_count = Some(1);
        }
        self.0.execute(event).await.context("moving the mouse")?;
        Ok(())
    }

    /// Presses a key, as `KeyboardEvent.key` names it.
    pub(crate) async fn press(&self, key: &str) -> Result<()> {
        let known = keys::get_key_definition(key).with_context(|| format!("no key {key}"))?;
        let text = known.text.or((known.key.len() == 1).then_some(known.key));
        let down = match text {
            Some(_) => DispatchKeyEventType::KeyDown,
            None => DispatchKeyEventType::RawKeyDown,
        };
        for kind in [down, DispatchKeyEventType::KeyUp] {
            let mut event = DispatchKeyEventParams::new(kind);
            event.key = Some(known.key.to_owned());
            event.code = Some(known.code.to_owned());
            event.windows_virtual_key_code = Some(known.key_code);
            event.native_virtual_key_code = Some(known.key_code);
            event.text = text
                .filter(|_| event.r#type != DispatchKeyEventType::KeyUp)
                .map(str::to_owned);
            self.0.execute(event).await.context("pressing a key")?;
        }
        Ok(())
    }

    /// Writes where the focus is.
    pub(crate) async fn write(&self, text: &str) -> Result<()> {
        self.0
            .execute(InsertTextParams::new(text))
            .await
            .context("writing")?;
        Ok(())
    }

    /// Clicks into a field and writes there in place of what it holds.
    pub(crate) async fn fill(&self, selector: &str, text: &str) -> Result<()> {
        self.click(selector, None).await?;
        let _: Value = self.ask("(document.activeElement.select(), 0)").await?;
        if text.is_empty() {
            return self.press("Backspace").await;
        }
        self.write(text).await
    }

    pub(crate) async fn picture(&self) -> Result<Vec<u8>> {
        let how = ScreenshotParams::builder()
            .format(CaptureScreenshotFormat::Png)
            .build();
        self.0.screenshot(how).await.context("taking a picture")
    }

    pub(crate) async fn theme(&self, theme: &str) -> Result<()> {
        let _: Value = self
            .ask(&format!(
                "(document.documentElement.dataset.theme = {}, 0)",
                json!(theme)
            ))
            .await?;
        Ok(())
    }

    pub(crate) async fn accessible(&self, axe: &str, what: &str) -> Result<()> {
        let _: Value = self.ask(&format!("(() => {{ const module = undefined, exports = undefined, define = undefined; {axe}; return 0; }})()")).await?;
        for theme in ["dark", "light"] {
            self.theme(theme).await?;
            let found: Vec<String> = self
                .ask(
                    "axe.run(document, { resultTypes: ['violations'] }).then((all) => all.violations.flatMap((one) => \
                     one.nodes.map((node) => `${one.id} at ${node.target.join(' ')}: ${node.failureSummary}`)))",
                )
                .await?;
            if !found.is_empty() {
                bail!("{what}, {theme}: {}", found.join("\n"));
            }
        }
        Ok(())
    }
}
