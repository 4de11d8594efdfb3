//! The options of training on the command line, one for each field of [`TrainOptions`].
//!
//! An option that is not given is `None`: defaults are filled in where options are resolved, and shown in the help
//! from the same tables ([`with_defaults_in_help`]). `-h` shows what people use, `--help` everything.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use gausset_train::config::{defaults, quality_defaults, strategy_defaults};
use gausset_train::{
    Adam, Alpha, Background, Exposure, FreeSpace, InitPoints, MemoryLimit, Plan, Quality, RandomBackground,
    Strategy, TimeBudget, TrainOptions, Up,
};

/// Defines the options: the struct for clap, and its form for the trainer. A field that `TrainOptions` has and this
/// list has not (or the other way round) does not compile.
macro_rules! option_args {
    ($($(#[$meta:meta])* $name:ident: $type:ty,)+) => {
        /// Options of training as given on the command line.
        #[derive(Clone, Debug, Default, clap::Args)]
        pub(crate) struct OptionArgs {
            $($(#[$meta])* $name: Option<$type>,)+
        }

        impl OptionArgs {
            /// The same with the dataset, for the trainer.
            pub(crate) fn into_options(self, data: Option<PathBuf>) -> TrainOptions {
                TrainOptions { data, $($name: self.$name,)+ }
            }
        }
    };
}

/// A parser of words that completions and suggestions know.
fn words<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>())
}

/// The words of `--exposure`; in version 0.1 it was a flag.
fn exposure_words() -> impl TypedValueParser<Value = Exposure> {
    let value = |word: &'static str| match word {
        "on" => PossibleValue::new(word).alias("true"),
        "off" => PossibleValue::new(word).alias("false"),
        _ => PossibleValue::new(word),
    };
    PossibleValuesParser::new(Exposure::WORDS.iter().copied().map(value)).try_map(|word| word.parse())
}

const DATA: &str = "Data";
const RUN: &str = "Run";
const MACHINE: &str = "Machine";
const MODEL: &str = "Model";
const CORRECTIONS: &str = "Corrections";
const START: &str = "Start (details)";
const LOSS: &str = "Loss and rates (details)";
const DENSITY: &str = "Density control (details)";

option_args! {
    /// Folder of the pictures, if it is not where the dataset says.
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    images: PathBuf,
    /// Folder of the masks (black = ignore), if it is not `masks`.
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    masks: PathBuf,
    /// Folder of the COLMAP model, if it is not `sparse/0` or `sparse`.
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    sparse: PathBuf,
    /// Splats or points (PLY) to start from, instead of the dataset's points.
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    init: PathBuf,
    /// Take pictures whose names lead out of the picture folder (by `..` or as absolute paths).
    #[arg(
        long, value_name = "BOOL", help_heading = DATA, num_args = 0..=1, default_missing_value = "true",
        require_equals = true, hide_possible_values = true
    )]
    allow_outside: bool,
    /// Hold out every N-th picture for evaluation; 0 = none.
    #[arg(long, value_name = "N", help_heading = DATA)]
    test_every: u32,
    /// Longest side of a picture in px, larger ones are downscaled; 0 = no limit.
    #[arg(long, value_name = "PX", help_heading = DATA)]
    max_resolution: u32,
    /// What the alpha of pictures means: composite on the background, or mask.
    #[arg(long, value_name = "MEANING", help_heading = DATA, value_parser = words::<Alpha>(Alpha::WORDS))]
    alpha: Alpha,
    /// Colour behind the splats: auto|sky|black|white|R,G,B in 0..1; sky = learnt for each direction;
    /// auto = sky for 40 photographs and more, white for Blender-style data, else black.
    #[arg(long, value_name = "COLOUR", help_heading = DATA)]
    background: Background,
    /// Another background colour each step, so that no splat can pretend to be it: auto|always|never; auto = where
    /// training starts from random splats; always where there are fewer than 40 pictures.
    #[arg(
        long, value_name = "WHEN", help_heading = DATA, num_args = 0..=1, default_missing_value = "always",
        require_equals = true, hide_possible_values = true,
        value_parser = words::<RandomBackground>(RandomBackground::WORDS)
    )]
    random_background: RandomBackground,

    /// The recipe at three scales: fast, default or best. It sets steps, splats and picture sizes that are not given.
    #[arg(long, value_name = "SCALE", help_heading = RUN, value_parser = words::<Quality>(Quality::WORDS))]
    quality: Quality,
    /// Steps of the whole run; all schedules scale with it. The default preset takes 7,000 for small pictures
    /// (400x400), 3,500 for larger ones (800x600), never fewer than 3,000; the best one three times as many, at most
    /// 30,000; the fast one 1,400.
    #[arg(long, value_name = "N", help_heading = RUN)]
    steps: u64,
    /// Finish in this time, for instance 90s or 5m: finds steps and splats that fit, and keeps to it.
    #[arg(long, value_name = "TIME", help_heading = RUN)]
    time_budget: TimeBudget,
    /// Repeat the decisions of a run with a time budget, as its config.toml has them.
    #[arg(long, value_name = "PLAN", help_heading = RUN, hide_short_help = true)]
    plan: Plan,
    /// Seed of all random numbers.
    #[arg(long, value_name = "N", help_heading = RUN)]
    seed: u64,
    /// Start with pictures this many times smaller (1, 2, 4 or 8): coarse to fine.
    #[arg(long, value_name = "N", help_heading = RUN, hide_short_help = true)]
    coarse_factor: u32,
    /// Fraction of the run after which pictures have their full size.
    #[arg(long, value_name = "FRACTION", help_heading = RUN, hide_short_help = true)]
    coarse_until: f64,
    /// How the set of splats changes: mcmc (relocation) or classic (clone, split, prune).
    #[arg(long, value_name = "STRATEGY", help_heading = MODEL, value_parser = words::<Strategy>(Strategy::WORDS))]
    strategy: Strategy,
    /// Largest number of splats; for few or small pictures the default is one for 40 of their pixels.
    #[arg(long, value_name = "N", help_heading = MODEL)]
    max_splats: u64,
    /// Highest degree of spherical harmonics, 0..3: how much colour depends on direction.
    #[arg(long, value_name = "DEGREE", help_heading = MODEL)]
    sh_degree: u8,
    /// Fraction of the run between two raises of the SH degree.
    #[arg(long, value_name = "FRACTION", help_heading = MODEL, hide_short_help = true)]
    sh_every: f64,
    /// Compensate opacity of splats smaller than a pixel, for views from other distances.
    #[arg(
        long, value_name = "BOOL", help_heading = MODEL, num_args = 0..=1, default_missing_value = "true",
        require_equals = true, hide_possible_values = true
    )]
    antialiased: bool,
    /// Splats drawn per 16x16 px tile at most, nearest first; 0 = no limit.
    #[arg(long, value_name = "N", help_heading = MODEL, hide_short_help = true)]
    max_splats_per_tile: u32,
    /// Splats closer to a camera than this are not drawn, in scene units.
    #[arg(long, value_name = "DISTANCE", help_heading = MODEL, hide_short_help = true)]
    near_plane: f64,
    /// Which points splats start from: sfm = those of the dataset; dense = also points from stereo on the training
    /// pictures, or an error where there are none; auto = where enough views agree on them.
    #[arg(
        long, value_name = "POINTS", help_heading = MODEL, hide_possible_values = true,
        value_parser = words::<InitPoints>(InitPoints::WORDS)
    )]
    init_points: InitPoints,
    /// Random splats to start from when a dataset has no points; the default preset takes 20,000 for an object in
    /// front of nothing (Blender-style data).
    #[arg(long, value_name = "N", help_heading = START, hide_short_help = true)]
    initial_splats: u64,
    /// Opacity of splats that start from points, 0..1.
    #[arg(long, value_name = "OPACITY", help_heading = START, hide_short_help = true)]
    initial_opacity: f64,
    /// Starting scale as a multiple of the distance to the neighbours.
    #[arg(long, value_name = "FACTOR", help_heading = START, hide_short_help = true)]
    initial_scale: f64,
    /// Share of D-SSIM in the loss, 0..1; the rest is L1.
    #[arg(long, value_name = "SHARE", help_heading = LOSS, hide_short_help = true)]
    dssim_weight: f64,
    /// Weight of the mean opacity in the loss.
    #[arg(long, value_name = "WEIGHT", help_heading = LOSS, hide_short_help = true)]
    opacity_regularisation: f64,
    /// Fraction of the run after which the mean opacity is free.
    #[arg(long, value_name = "FRACTION", help_heading = LOSS, hide_short_help = true)]
    opacity_regularisation_until: f64,
    /// Weight of the mean scale in the loss.
    #[arg(long, value_name = "WEIGHT", help_heading = LOSS, hide_short_help = true)]
    scale_regularisation: f64,
    /// Share of the splats that each step leaves out at random, so that few pictures are not learnt by heart; 0.1
    /// where there are fewer than 40 of them.
    #[arg(long, value_name = "SHARE", help_heading = LOSS, hide_short_help = true)]
    dropout: f64,

    /// Which splats Adam moves: all of them (dense) or those with a gradient (sparse).
    #[arg(long, value_name = "FORM", help_heading = LOSS, hide_short_help = true, value_parser = words::<Adam>(Adam::WORDS))]
    adam: Adam,
    /// Rate of the means at the start, in scene extents.
    #[arg(long, value_name = "RATE", help_heading = LOSS, hide_short_help = true)]
    lr_means: f64,
    /// Rate of the means at the end, in scene extents.
    #[arg(long, value_name = "RATE", help_heading = LOSS, hide_short_help = true)]
    lr_means_final: f64,
    /// Rate of the log scales.
    #[arg(long, value_name = "RATE", help_heading = LOSS, hide_short_help = true)]
    lr_scales: f64,
    /// Rate of the quaternions.
    #[arg(long, value_name = "RATE", help_heading = LOSS, hide_short_help = true)]
    lr_quats: f64,
    /// Rate of the opacity logits.
    #[arg(long, value_name = "RATE", help_heading = LOSS, hide_short_help = true)]
    lr_opacities: f64,
    /// Rate of SH coefficient 0, the colour.
    #[arg(long, value_name = "RATE", help_heading = LOSS, hide_short_help = true)]
    lr_sh_dc: f64,
    /// Rate of the other SH coefficients.
    #[arg(long, value_name = "RATE", help_heading = LOSS, hide_short_help = true)]
    lr_sh_rest: f64,

    /// Density control begins after this fraction of the run.
    #[arg(long, value_name = "FRACTION", help_heading = DENSITY, hide_short_help = true)]
    density_from: f64,
    /// Density control ends at this fraction of the run.
    #[arg(long, value_name = "FRACTION", help_heading = DENSITY, hide_short_help = true)]
    density_until: f64,
    /// Steps between two changes of the set; 0 = 100, fewer in short runs.
    #[arg(long, value_name = "N", help_heading = DENSITY, hide_short_help = true)]
    density_every: u64,
    /// Keep space empty that is known to be empty, close in front of cameras: auto|off; auto = where the points of the
    /// dataset tell.
    #[arg(
        long, value_name = "WHEN", help_heading = DENSITY, hide_possible_values = true,
        value_parser = words::<FreeSpace>(FreeSpace::WORDS)
    )]
    free_space: FreeSpace,
    /// Classic: splats with a larger mean screen gradient grow [default with --abs-grad: 0.0008].
    #[arg(long, value_name = "GRADIENT", help_heading = DENSITY, hide_short_help = true)]
    grow_gradient: f64,
    /// Classic: use absolute pixel gradients for growth.
    #[arg(
        long, value_name = "BOOL", help_heading = DENSITY, hide_short_help = true, num_args = 0..=1,
        default_missing_value = "true", require_equals = true, hide_possible_values = true
    )]
    abs_grad: bool,
    /// Classic: larger splats (scene extents) are split rather than cloned.
    #[arg(long, value_name = "SCALE", help_heading = DENSITY, hide_short_help = true)]
    clone_scale: f64,
    /// Classic: splats of lower opacity are removed.
    #[arg(long, value_name = "OPACITY", help_heading = DENSITY, hide_short_help = true)]
    prune_opacity: f64,
    /// Classic: larger splats (scene extents) are removed after the first opacity reset.
    #[arg(long, value_name = "SCALE", help_heading = DENSITY, hide_short_help = true)]
    prune_scale: f64,
    /// Classic: splats with a larger screen radius (px) are removed; 0 = off.
    #[arg(long, value_name = "PX", help_heading = DENSITY, hide_short_help = true)]
    prune_screen: f64,
    /// Classic: fraction of the run between two opacity resets; 0 = never.
    #[arg(long, value_name = "FRACTION", help_heading = DENSITY, hide_short_help = true)]
    opacity_reset_every: f64,
    /// MCMC: splats of at most this opacity are relocated.
    #[arg(long, value_name = "OPACITY", help_heading = DENSITY, hide_short_help = true)]
    dead_opacity: f64,
    /// MCMC: growth of the set per change, 1..2; the default has --max-splats after 0.4 of the run, with fewer than 40
    /// pictures when density control ends.
    #[arg(long, value_name = "FACTOR", help_heading = DENSITY, hide_short_help = true)]
    growth: f64,
    /// MCMC: this share of the splats, those with the longest axes, are split along that axis instead of being copied;
    /// with fewer than 40 pictures none.
    #[arg(long, value_name = "SHARE", help_heading = DENSITY, hide_short_help = true)]
    split_largest: f64,
    /// MCMC: noise on the means, as a multiple of their rate.
    #[arg(long, value_name = "FACTOR", help_heading = DENSITY, hide_short_help = true)]
    noise: f64,

    /// Gains per picture, for photographs with automatic exposure: auto|on|off; auto = on where the points that pictures
    /// share differ in brightness; affine = the 3x4 affine of version 0.1.
    #[arg(
        long, value_name = "WHEN", help_heading = CORRECTIONS, num_args = 0..=1, default_missing_value = "on",
        hide_possible_values = true, value_parser = exposure_words()
    )]
    exposure: Exposure,
    /// Rate of the colour corrections at the start, for 100 visits of a picture; with fewer visits it is raised.
    #[arg(long, value_name = "RATE", help_heading = CORRECTIONS, hide_short_help = true)]
    lr_exposure: f64,
    /// Rate of the colour corrections at the end.
    #[arg(long, value_name = "RATE", help_heading = CORRECTIONS, hide_short_help = true)]
    lr_exposure_final: f64,
    /// Share by which a colour correction returns to none each step.
    #[arg(long, value_name = "SHARE", help_heading = CORRECTIONS, hide_short_help = true)]
    exposure_decay: f64,
    /// Learn the vignetting of each camera.
    #[arg(
        long, value_name = "BOOL", help_heading = CORRECTIONS, num_args = 0..=1, default_missing_value = "true",
        require_equals = true, hide_possible_values = true
    )]
    vignetting: bool,
    /// Refine the camera poses.
    #[arg(
        long, value_name = "BOOL", help_heading = CORRECTIONS, num_args = 0..=1, default_missing_value = "true",
        require_equals = true, hide_possible_values = true
    )]
    refine_poses: bool,
    /// Rate of the poses: radians, and scene extents for the position.
    #[arg(long, value_name = "RATE", help_heading = CORRECTIONS, hide_short_help = true)]
    lr_poses: f64,
    /// Share by which a pose correction returns to none each step.
    #[arg(long, value_name = "SHARE", help_heading = CORRECTIONS, hide_short_help = true)]
    pose_decay: f64,
    /// Poses are refined from this fraction of the run.
    #[arg(long, value_name = "FRACTION", help_heading = CORRECTIONS, hide_short_help = true)]
    poses_from: f64,
    /// Poses are refined until this fraction of the run.
    #[arg(long, value_name = "FRACTION", help_heading = CORRECTIONS, hide_short_help = true)]
    poses_until: f64,

    /// Size of the scene in its own units; 0 = from the cameras.
    #[arg(long, value_name = "LENGTH", help_heading = DATA, hide_short_help = true)]
    scene_extent: f64,
    /// Direction that becomes up in the saved scene: auto|x|y|z|-x|-y|-z|none; auto = the cameras'.
    #[arg(
        long, value_name = "AXIS", help_heading = RUN, allow_hyphen_values = true, hide_possible_values = true,
        value_parser = words::<Up>(Up::WORDS)
    )]
    up: Up,

    /// Threads; 0 = all processors. The result does not depend on it.
    #[arg(long, value_name = "N", help_heading = MACHINE)]
    threads: u32,
    /// Memory to stay within: 4GiB, 512MiB, bytes; auto = half of the machine's.
    #[arg(long, value_name = "SIZE", help_heading = MACHINE)]
    max_memory: MemoryLimit,
    /// Steps between two checkpoints; 0 = by time only.
    #[arg(long, value_name = "N", help_heading = RUN)]
    checkpoint_every: u64,
    /// Seconds between two checkpoints; 0 = by steps only.
    #[arg(long, value_name = "S", help_heading = RUN, hide_short_help = true)]
    checkpoint_seconds: u64,
    /// Steps between evaluations on the held-out pictures; 0 = at the end only.
    #[arg(long, value_name = "N", help_heading = RUN)]
    eval_every: u64,
    /// Steps between exports of `splats.ply`; 0 = at the end only.
    #[arg(long, value_name = "N", help_heading = RUN)]
    export_every: u64,
    /// Keep the depth maps from which dense points are made, as NumPy arrays in RUN/depth.
    #[arg(
        long, value_name = "BOOL", help_heading = RUN, hide_short_help = true, num_args = 0..=1,
        default_missing_value = "true", require_equals = true, hide_possible_values = true
    )]
    keep_depth: bool,
}

/// Adds `[default: …]` to the help of each option, from the tables that fill it in.
pub(crate) fn with_defaults_in_help(command: clap::Command) -> clap::Command {
    let general = defaults().given();
    let mcmc = strategy_defaults(Strategy::Mcmc, false).given();
    let classic = strategy_defaults(Strategy::Classic, false).given();
    let [fast, usual, best] = [Quality::Fast, Quality::Default, Quality::Best]
        .map(|quality| TrainOptions { quality: Some(quality), ..TrainOptions::default() })
        .map(|given| quality_defaults(&given, None).given());
    let value_in = |table: &[(String, toml::Value)], key: &str| {
        table.iter().find(|(known, _)| known == key).map(|(_, value)| shown(value))
    };
    command.mut_args(|argument| {
        let Some(key) = argument.get_long().map(str::to_owned) else { return argument };
        let Some(help) = argument.get_help().map(ToString::to_string) else { return argument };
        let [general, mcmc, classic, fast, usual, best] =
            [&general, &mcmc, &classic, &fast, &usual, &best].map(|table| value_in(table, &key));
        let default = match (general, mcmc.zip(classic), usual) {
            (Some(value), ..) => value,
            (_, Some((mcmc, classic)), _) if mcmc == classic => mcmc,
            (_, Some((mcmc, classic)), _) => format!("{mcmc}, classic: {classic}"),
            (_, _, Some(usual)) => [("fast", fast), ("best", best)]
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.filter(|value| *value != usual)?)))
                .fold(usual.clone(), |text, (name, value)| format!("{text}, {name}: {value}")),
            _ => return argument,
        };
        // Flags are off; a default in the help would only make noise.
        if default == "false" { argument } else { argument.help(format!("{help} [default: {default}]")) }
    })
}

/// A default for people: fractions with four digits that matter.
fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::String(word) => word.clone(),
        toml::Value::Float(number) if *number != 0.0 && number.abs() < 1e-3 => format!("{number:e}"),
        toml::Value::Float(number) => {
            let rounded = (number * 1e4).round() / 1e4;
            rounded.to_string()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_that_has_a_default_shows_it() {
        let command = crate::cli::definition();
        let train = command.find_subcommand("train").unwrap();
        for (key, value) in defaults().given() {
            let argument = train.get_arguments().find(|a| a.get_long() == Some(&key)).unwrap();
            let help = argument.get_help().unwrap().to_string();
            let is_flag = value.as_bool().is_some();
            assert!(is_flag || help.contains(&format!("[default: {}]", shown(&value))), "--{key}: {help}");
        }
    }

    #[test]
    fn every_option_of_a_config_file_is_one_of_the_command_line() {
        let command = crate::cli::definition();
        let train = command.find_subcommand("train").unwrap();
        for key in TrainOptions::keys().filter(|key| key != "data") {
            assert!(train.get_arguments().any(|a| a.get_long() == Some(&key)), "--{key}");
        }
    }

    #[test]
    fn defaults_are_shown_with_the_digits_that_matter() {
        let float = |v: f64| shown(&toml::Value::Float(v));
        assert_eq!(
            [1.0 / 60.0, 0.2, 1.6e-6, 5e5, 2.5e-3, 0.0].map(float),
            ["0.0167", "0.2", "1.6e-6", "500000", "0.0025", "0"]
        );
        assert_eq!(float(2.5e-3 / 20.0), "1.25e-4");
    }
}
