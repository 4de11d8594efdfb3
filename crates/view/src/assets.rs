//! The files of the viewer page, compiled into the program.

/// A file of the page: path, media type and contents.
pub(crate) struct Asset {
    path: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) text: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

const ASSETS: [Asset; 17] = [
    Asset { path: "/", media_type: "text/html; charset=utf-8", text: include_str!("../page/index.html") },
    Asset {
        path: "/assets/style.css",
        media_type: "text/css; charset=utf-8",
        text: include_str!("../page/style.css"),
    },
    Asset { path: "/assets/base.css", media_type: "text/css; charset=utf-8", text: gausset_page::BASE },
    Asset { path: "/assets/icon.svg", media_type: "image/svg+xml", text: include_str!("../page/icon.svg") },
    Asset { path: "/assets/main.js", media_type: SCRIPT, text: include_str!("../page/main.js") },
    Asset { path: "/assets/link.js", media_type: SCRIPT, text: include_str!("../page/link.js") },
    Asset { path: "/assets/camera.js", media_type: SCRIPT, text: gausset_page::CAMERA },
    Asset { path: "/assets/controls.js", media_type: SCRIPT, text: gausset_page::CONTROLS },
    Asset { path: "/assets/input.js", media_type: SCRIPT, text: gausset_page::INPUT },
    Asset { path: "/assets/stage.js", media_type: SCRIPT, text: include_str!("../page/stage.js") },
    Asset { path: "/assets/path.js", media_type: SCRIPT, text: include_str!("../page/path.js") },
    Asset { path: "/assets/splats.js", media_type: SCRIPT, text: gausset_page::SPLATS },
    Asset { path: "/assets/sort.js", media_type: SCRIPT, text: include_str!("../page/sort.js") },
    Asset { path: "/assets/own.js", media_type: SCRIPT, text: include_str!("../page/own.js") },
    Asset { path: "/assets/over.js", media_type: SCRIPT, text: include_str!("../page/over.js") },
    Asset { path: "/assets/thumbs.js", media_type: SCRIPT, text: include_str!("../page/thumbs.js") },
    Asset { path: "/assets/charts.js", media_type: SCRIPT, text: include_str!("../page/charts.js") },
];

/// The file with this path.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_no_other_host_and_holds_no_inline_script() {
        for asset in &ASSETS {
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{}", asset.path);
        }
        let page = find("/").map_or("", |asset| asset.text);
        assert!(!page.contains("onclick") && !page.contains("<style") && !page.contains("style="));
        assert_eq!(page.matches("<script").count(), page.matches("<script type=\"module\" src=").count());
        assert!(find("/assets/../Cargo.toml").is_none());
    }

    #[test]
    fn the_page_is_small() {
        use std::io::Write;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        for asset in &ASSETS {
            packed.write_all(asset.text.as_bytes()).unwrap();
        }
        assert!(packed.finish().unwrap().len() < 120 << 10);
    }
}
