//! Dense volumes and points as files: `.npy`, NRRD, VTK image data.

use std::io::{self, Write};

use gausset_io::npy::{self, write_numbers};

use crate::input::Affine;

/// A volume to write: values with x fastest.
#[derive(Clone, Copy, Debug)]
pub struct OutputVolume<'a> {
    /// Values, x fastest.
    pub values: &'a [f32],
    /// Voxels along x, y, z.
    pub dims: [usize; 3],
    /// World position of a voxel index.
    pub world_from_index: Affine,
}

impl OutputVolume<'_> {
    /// Writes it as `.npy`, indexed `[x][y][z]`.
    ///
    /// # Errors
    /// Writing failed.
    pub fn npy(&self, out: &mut dyn Write) -> io::Result<()> {
        let [nx, ny, nz] = self.dims;
        let at = |i: usize| {
            let (x, y, z) = (i / (ny * nz), i / nz % ny, i % nz);
            self.values[x + nx * (y + ny * z)]
        };
        npy::write(out, &self.dims, (0..nx * ny * nz).map(at))
    }

    /// Writes it as NRRD, raw, with directions in RAS+.
    ///
    /// # Errors
    /// Writing failed.
    pub fn nrrd(&self, out: &mut dyn Write) -> io::Result<()> {
        let [nx, ny, nz] = self.dims;
        let m = &self.world_from_index;
        let column = |k: usize| format!("({},{},{})", m[0][k], m[1][k], m[2][k]);
        write!(
            out,
            "NRRD0004\ntype: float\ndimension: 3\nspace: right-anterior-superior\nsizes: {nx} {ny} {nz}\n\
             space directions: {} {} {}\nkinds: domain domain domain\nendian: little\nencoding: raw\n\
             space origin: {}\n\n",
            column(0),
            column(1),
            column(2),
            column(3)
        )?;
        write_numbers(out, self.values.iter().copied())
    }

    /// Writes it as VTK image data (`.vti`), raw appended, with the direction matrix.
    ///
    /// # Errors
    /// Writing failed.
    pub fn vti(&self, out: &mut dyn Write) -> io::Result<()> {
        let [nx, ny, nz] = self.dims.map(|d| d.saturating_sub(1));
        let m = &self.world_from_index;
        let length = |k: usize| (0..3).map(|r| m[r][k] * m[r][k]).sum::<f64>().sqrt();
        let spacing = [length(0), length(1), length(2)];
        let direction: Vec<String> = (0..9).map(|i| (m[i / 3][i % 3] / spacing[i % 3]).to_string()).collect();
        let extent = format!("0 {nx} 0 {ny} 0 {nz}");
        write!(
            out,
            "<?xml version=\"1.0\"?>\n<VTKFile type=\"ImageData\" version=\"1.0\" byte_order=\"LittleEndian\" \
             header_type=\"UInt64\">\n<ImageData WholeExtent=\"{extent}\" Origin=\"{} {} {}\" \
             Spacing=\"{} {} {}\" Direction=\"{}\">\n<Piece Extent=\"{extent}\"><PointData Scalars=\"field\">\n\
             <DataArray type=\"Float32\" Name=\"field\" format=\"appended\" offset=\"0\"/>\n\
             </PointData></Piece></ImageData>\n<AppendedData encoding=\"raw\">\n_",
            m[0][3],
            m[1][3],
            m[2][3],
            spacing[0],
            spacing[1],
            spacing[2],
            direction.join(" ")
        )?;
        out.write_all(&(4 * self.values.len() as u64).to_le_bytes())?;
        write_numbers(out, self.values.iter().copied())?;
        out.write_all(b"\n</AppendedData>\n</VTKFile>\n")
    }
}
