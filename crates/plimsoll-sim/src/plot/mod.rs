//! Plots of comparisons, as SVG and PNG.

mod lines;
mod paint;
mod scale;

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use plotters::prelude::{BitMapBackend, SVGBackend};
use plotters::style::{FontStyle, register_font};

use crate::{Compared, Simulation};

/// The width of every picture.
const WIDTH: u32 = 1400;
const FONT: &str = "sans-serif";

/// An error of [`plot_file`], [`plot_svg`] and [`plot_png`]: a file name with another ending, a file that cannot be written, or an
/// error of the plotting backend.
#[derive(Debug)]
pub struct PlotError(String);

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlotError {}

fn failed(error: impl fmt::Display) -> PlotError {
    PlotError(error.to_string())
}

/// Draws the first run of every limit into a file, as SVG or PNG by the extension of its name. A file that exists is replaced.
///
/// # Errors
///
/// Returns an error if the name ends in neither `.svg` nor `.png`, or the file cannot be written.
pub fn plot_file(
    path: &Path,
    simulation: &Simulation,
    compared: &Compared,
) -> Result<(), PlotError> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let bytes = match ending {
        Some("svg") => plot_svg(simulation, compared)?.into_bytes(),
        Some("png") => plot_png(simulation, compared)?,
        _ => return Err(failed("the name of a plot must end in .svg or .png")),
    };
    std::fs::write(path, bytes).map_err(failed)
}

/// Draws the first run of every limit as SVG: throughput, latency, limits and refusals over time, one line for each limit.
///
/// ```
/// use plimsoll_sim::{Comparison, Contender, Simulation, plot_svg};
///
/// let simulation = Simulation::from_text("overload.yaml", "
///     name: overload
///     duration: 5s
///     rate: 300
///     workers: 10
///     service: 50ms
/// ")?;
/// let compared = Comparison::of(&simulation).test(Contender::fixed(14)).seeds(1).run();
/// assert!(plot_svg(&simulation, &compared)?.starts_with("<svg"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns an error if the plotting backend fails, which no simulation is known to cause.
pub fn plot_svg(simulation: &Simulation, compared: &Compared) -> Result<String, PlotError> {
    prepare_font()?;
    let picture = lines::picture(simulation, compared);
    let mut text = String::new();
    let backend = SVGBackend::with_string(&mut text, (WIDTH, picture.height()));
    paint::paint(&picture, backend).map_err(failed)?;
    Ok(text)
}

/// Draws the first run of every limit as PNG, 1400 pixels wide. The content is that of [`plot_svg`].
///
/// # Errors
///
/// Returns an error if the plotting backend fails, which no simulation is known to cause.
pub fn plot_png(simulation: &Simulation, compared: &Compared) -> Result<Vec<u8>, PlotError> {
    prepare_font()?;
    let picture = lines::picture(simulation, compared);
    let (width, height) = (WIDTH, picture.height());
    let pixels = u64::from(width) * u64::from(height) * 3;
    let mut buffer = vec![0; crate::num::index(pixels)];
    let backend = BitMapBackend::with_buffer(&mut buffer, (width, height));
    paint::paint(&picture, backend).map_err(failed)?;

    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&buffer).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

/// Registers the built-in font, since the machine may have none.
fn prepare_font() -> Result<(), PlotError> {
    static READY: OnceLock<bool> = OnceLock::new();
    let ready = READY
        .get_or_init(|| register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok());
    if *ready {
        Ok(())
    } else {
        Err(failed("the font cannot be used"))
    }
}
