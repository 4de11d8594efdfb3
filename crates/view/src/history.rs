//! Data of the charts: a bounded number of points for runs of any length.

use gausset_train::Event;
use serde::Serialize;
use serde_json::Value;

/// Largest number of points of a curve. When it is exceeded, every other point is removed.
const MAX_POINTS: usize = 2000;

/// The curves of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ChartHistory {
    /// Step, loss, splats, steps per second, bytes of memory.
    progress: Vec<(u64, f64, u64, f64, Option<u64>)>,
    /// Step and PSNR of the held-out images in dB.
    psnr: Vec<(u64, f64)>,
}

impl ChartHistory {
    /// The curves of a log (`metrics.jsonl`).
    pub(crate) fn from_log(lines: &[Value]) -> Self {
        let mut history = Self::default();
        for line in lines {
            let number = |name: &str| line[name].as_f64();
            let whole = |name: &str| line[name].as_u64();
            if let (Some(step), Some(loss)) = (whole("step"), number("loss")) {
                let rate = number("it_per_s").unwrap_or_default();
                let splats = whole("splats").unwrap_or_default();
                history.progress.push((step, loss, splats, rate, whole("memory")));
            } else if let Some(step) = whole("step") {
                let last = line["finished"]["psnr"].as_f64();
                history.psnr.extend(number("psnr").or(last).map(|psnr| (step, psnr)));
            }
        }
        thin(&mut history.progress);
        thin(&mut history.psnr);
        history
    }

    /// Adds the points of an event.
    pub(crate) fn add_event(&mut self, event: &Event) {
        match event {
            Event::Progress(now) => {
                self.progress.push((now.step, now.loss, now.splats, now.it_per_s, now.memory));
                thin(&mut self.progress);
            }
            Event::Evaluated { step, report } => {
                self.psnr.extend(report.psnr.map(|psnr| (*step, psnr)));
                thin(&mut self.psnr);
            }
            _ => {}
        }
    }
}

/// Removes every other point except the last if there are too many.
fn thin<T>(points: &mut Vec<T>) {
    while points.len() > MAX_POINTS {
        let last = points.len() - 1;
        let mut index = 0;
        points.retain(|_| {
            index += 1;
            (index - 1) % 2 == 0 || index - 1 == last
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_becomes_curves_and_long_ones_are_thinned() {
        let text = |step: u64| serde_json::json!({"step": step, "loss": 0.5, "splats": 7, "it_per_s": 2.0, "memory": 1 << 30});
        let mut lines: Vec<Value> = (0..5001).map(text).collect();
        lines.push(serde_json::json!({"step": 5000, "psnr": 30.5, "ssim": 0.9}));
        lines.push(serde_json::json!({"step": 5000, "finished": {"psnr": 31.0}}));
        let history = ChartHistory::from_log(&lines);
        assert!(history.progress.len() <= MAX_POINTS && history.progress.len() > MAX_POINTS / 2);
        assert_eq!(history.progress[0], (0, 0.5, 7, 2.0, Some(1 << 30)));
        assert_eq!(history.progress.last().map(|point| point.0), Some(5000));
        assert_eq!(history.psnr, [(5000, 30.5), (5000, 31.0)]);
    }
}
