//! A report as one HTML page: sections of facts, charts, tables and images. All third-party text is escaped here and
//! nowhere else.

use std::fmt::Write as _;
use std::io::Write as _;

use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::chart::{Histogram, LineChart};
use crate::place_map::PlaceMap;
use crate::scene;
use crate::text::{csp_hash, escape_html, write_base128};
use crate::{BASE, UNPACK, bundle, unindented};

const STYLE: &str = include_str!("../script/report.css");
const SCRIPT: &str = include_str!("../script/report.js");

/// A report that is being built.
#[derive(Debug)]
pub struct ReportPage {
    title: String,
    body: String,
    has_splats: bool,
    /// Whether a section is open.
    in_section: bool,
}

/// A picture at the start of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct HeroImage {
    /// What it is: `Worst held-out view: a.png`.
    pub title: String,
    /// Its scores.
    pub scores: String,
    /// JPEG with its width and height in px.
    pub jpeg: (Vec<u8>, [u32; 2]),
}

/// A row of [`ReportPage::images`]: an image with its scores.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageRow {
    /// Name of the image.
    pub name: String,
    /// Its scores, one per column.
    pub cells: Vec<String>,
    /// JPEG with its width and height in px; `None` if there is no image or it does not fit.
    pub jpeg: Option<(Vec<u8>, [u32; 2])>,
}

impl ReportPage {
    /// Creates a report with a title and a line below it.
    #[must_use]
    pub fn new(title: &str, lead: &str) -> Self {
        let body = format!("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n", escape_html(title), escape_html(lead));
        Self { title: title.to_owned(), body, has_splats: false, in_section: false }
    }

    /// Starts a section, which is folded until the user opens it.
    pub fn section(&mut self, heading: &str) {
        self.end_section();
        let _ = writeln!(self.body, "<details><summary><h2>{}</h2></summary>", escape_html(heading));
        self.in_section = true;
    }

    fn end_section(&mut self) {
        if std::mem::take(&mut self.in_section) {
            self.body.push_str("</details>\n");
        }
    }

    /// Adds large pictures side by side, each with its scores. `content` says what a picture shows.
    pub fn hero(&mut self, images: &[HeroImage], content: &str) {
        self.body.push_str("<div class=\"hero\">\n");
        for HeroImage { title, scores, jpeg: (jpeg, [width, height]) } in images {
            let (title, scores) = (escape_html(title), escape_html(scores));
            let _ = writeln!(
                self.body,
                "<figure><figcaption>{title} <span>{scores}</span></figcaption><img width=\"{width}\" height=\"{height}\" alt=\"{}\" src=\"data:image/jpeg;base64,{}\"></figure>",
                escape_html(content),
                BASE64.encode(jpeg)
            );
        }
        let _ = writeln!(self.body, "</div>\n<p class=\"soft\">{}</p>", escape_html(content));
    }

    /// Adds the sentence that sums up the report.
    pub fn verdict(&mut self, sentence: &str) {
        let _ = writeln!(self.body, "<p class=\"verdict\">{}</p>", escape_html(sentence));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p class=\"soft\">{}</p>", escape_html(text));
    }

    /// Adds a list of names with values.
    pub fn facts(&mut self, facts: &[(&str, String)]) {
        self.body.push_str("<dl class=\"facts\">\n");
        for (name, value) in facts {
            let _ = writeln!(
                self.body,
                "<div><dt>{}</dt><dd>{}</dd></div>",
                escape_html(name),
                escape_html(value)
            );
        }
        self.body.push_str("</dl>\n");
    }

    /// Adds charts side by side. Charts without values are left out.
    pub fn charts(&mut self, lines: &[LineChart<'_>], histograms: &[Histogram<'_>]) {
        let charts: String =
            lines.iter().map(LineChart::html).chain(histograms.iter().map(Histogram::html)).collect();
        let _ = writeln!(self.body, "<div class=\"charts\">\n{charts}</div>");
    }

    /// Adds a map of places.
    pub fn place_map(&mut self, map: &PlaceMap<'_>) {
        self.body.push_str(&map.html());
    }

    /// Adds a list.
    pub fn list(&mut self, items: &[String]) {
        let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape_html(item))).collect();
        let _ = writeln!(self.body, "<ul>\n{items}</ul>");
    }

    /// Adds a table.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        self.begin_table(head);
        for row in rows {
            let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape_html(cell))).collect();
            let _ = writeln!(self.body, "<tr>{cells}</tr>");
        }
        self.body.push_str("</tbody></table></div>\n");
    }

    fn begin_table(&mut self, head: &[&str]) {
        let cells: String =
            head.iter().map(|name| format!("<th scope=\"col\">{}</th>", escape_html(name))).collect();
        let _ = writeln!(self.body, "<div class=\"wide\"><table><thead><tr>{cells}</tr></thead><tbody>");
    }

    /// Adds images with their scores, a row of scores above each image.
    pub fn images(&mut self, head: &[&str], rows: &[ImageRow]) {
        self.begin_table(head);
        for ImageRow { name, cells, jpeg } in rows {
            let name = escape_html(name);
            let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape_html(cell))).collect();
            let _ = writeln!(self.body, "<tr class=\"scores\"><th scope=\"row\">{name}</th>{cells}</tr>");
            if let Some((jpeg, [width, height])) = jpeg {
                let _ = writeln!(
                    self.body,
                    "<tr class=\"picture\"><td colspan=\"{}\"><img loading=\"lazy\" width=\"{width}\" height=\"{height}\" alt=\"photograph, render and error of {name}\" src=\"data:image/jpeg;base64,{}\"></td></tr>",
                    head.len(),
                    BASE64.encode(jpeg)
                );
            }
        }
        self.body.push_str("</tbody></table></div>\n");
    }

    /// Adds preformatted text of several lines.
    pub fn verbatim(&mut self, text: &str) {
        let _ = writeln!(self.body, "<pre tabindex=\"0\">{}</pre>", escape_html(text));
    }

    /// Adds the page of a scene ([`scene::write`]), which opens when the user presses a button.
    pub fn splat_viewer(&mut self, page: &[u8]) {
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
        let mut text = Vec::new();
        // Writing to memory cannot fail.
        let packed = packer.write_all(page).and_then(|()| packer.finish()).unwrap_or_default();
        let _ = write_base128(&mut text, &packed);
        let (length, text) = (packed.len(), String::from_utf8(text).unwrap_or_default());
        let _ = writeln!(
            self.body,
            "<button id=\"show-splats\">Show the splats</button>\n<script type=\"application/octet-stream\" id=\"splats-page\" data-bytes=\"{length}\">{text}</script>"
        );
        self.has_splats = true;
    }

    /// Returns the HTML page.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.end_section();
        let style = format!("{}\n{}", unindented(BASE), unindented(STYLE));
        let script = bundle(&[UNPACK, SCRIPT]);
        let mut policy =
            "default-src 'none'; img-src data: blob:; base-uri 'none'; form-action 'none'".to_owned();
        let mut styles = vec![csp_hash(&style)];
        if self.has_splats {
            // An iframe without its own address inherits the content policy, so the policy must allow what the inner
            // page runs.
            let [inner_script, inner_style] = scene::hashes();
            styles.push(inner_style);
            let _ = write!(policy, "; worker-src blob:; script-src {} {inner_script}", csp_hash(&script));
        }
        let _ = write!(policy, "; style-src {}", styles.join(" "));
        let script = if self.has_splats {
            format!("<script type=\"module\">{script}</script>\n")
        } else {
            String::new()
        };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"generator\" content=\"Gausset {}\">\n<title>{}</title>\n<style>{style}</style>\n\
             </head>\n<body>\n<main>\n{}</main>\n{script}</body>\n</html>\n",
            env!("CARGO_PKG_VERSION"),
            escape_html(&self.title),
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pictures_are_text() {
        let name = "<img src=x onerror=alert(1)>.jpg".to_owned();
        let mut report = ReportPage::new(&name, &name);
        let jpeg = (vec![1, 2, 3], [3, 1]);
        report.hero(&[HeroImage { title: name.clone(), scores: name.clone(), jpeg }], &name);
        report.verdict(&name);
        report.section(&name);
        report.facts(&[("<b>", name.clone())]);
        report.list(std::slice::from_ref(&name));
        report.table(&["<i>"], &[vec![name.clone()]]);
        let jpeg = Some((vec![1, 2, 3], [3, 1]));
        report.images(&["picture"], &[ImageRow { name: name.clone(), cells: vec![name.clone()], jpeg }]);
        report.verbatim(&format!("</pre>{name}"));
        report.charts(
            &[LineChart {
                title: &name,
                x_label: &name,
                points: &[[0.0, 1.0], [1.0, 2.0]],
                logarithmic: true,
            }],
            &[],
        );
        let page = report.finish();
        assert!(!page.contains("<img src=x") && !page.contains("<b>") && !page.contains("<i>"));
        assert_eq!(page.matches("<img ").count(), 2);
        assert_eq!((page.matches("<details>").count(), page.matches("</details>").count()), (1, 1));
        assert_eq!(page.matches("<script").count(), 0);
        assert!(!page.contains("http://") && !page.contains("https://"));
    }
}
