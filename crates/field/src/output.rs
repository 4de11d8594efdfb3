//! Dense volumes and points as files: `.npy`, NRRD, VTK image data.

use crate::input::Affine;

/// A volume to be written: values with x fastest.
#[derive(Clone, Copy, Debug)]
pub struct VolumeOut<'a> {
    /// Values.
    pub values: &'a [f32],
    /// Voxels along x, y, z.
    pub dims: [usize; 3],
    /// World position of a voxel index.
    pub world_from_index: Affine,
}

/// A `.npy` file of f32 in C order: `shape` with the last axis fastest.
#[must_use]
pub fn npy(shape: &[usize], values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    let list: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let dict = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{comma}), }}", list.join(", "));
    let padded = (10 + dict.len() + 1).next_multiple_of(64) - 10;
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((padded as u16).to_le_bytes());
    out.extend(dict.bytes());
    out.resize(10 + padded - 1, b' ');
    out.push(b'\n');
    out.extend(values.into_iter().flat_map(f32::to_le_bytes));
    out
}

impl VolumeOut<'_> {
    /// As `.npy`, indexed `[x][y][z]`.
    #[must_use]
    pub fn npy(&self) -> Vec<u8> {
        let [nx, ny, nz] = self.dims;
        let at = |i: usize| {
            let (x, y, z) = (i / (ny * nz), i / nz % ny, i % nz);
            self.values[x + nx * (y + ny * z)]
        };
        npy(&self.dims, (0..nx * ny * nz).map(at))
    }

    /// As NRRD, raw, with directions in RAS+.
    #[must_use]
    pub fn nrrd(&self) -> Vec<u8> {
        let [nx, ny, nz] = self.dims;
        let m = &self.world_from_index;
        let column = |k: usize| format!("({},{},{})", m[0][k], m[1][k], m[2][k]);
        let mut out = format!(
            "NRRD0004\ntype: float\ndimension: 3\nspace: right-anterior-superior\nsizes: {nx} {ny} {nz}\n\
             space directions: {} {} {}\nkinds: domain domain domain\nendian: little\nencoding: raw\n\
             space origin: {}\n\n",
            column(0),
            column(1),
            column(2),
            column(3)
        )
        .into_bytes();
        out.extend(self.values.iter().flat_map(|v| v.to_le_bytes()));
        out
    }

    /// As VTK image data (`.vti`), raw appended, with the direction matrix.
    #[must_use]
    pub fn vti(&self) -> Vec<u8> {
        let [nx, ny, nz] = self.dims.map(|d| d.saturating_sub(1));
        let m = &self.world_from_index;
        let length = |k: usize| (0..3).map(|r| m[r][k] * m[r][k]).sum::<f64>().sqrt();
        let spacing = [length(0), length(1), length(2)];
        let direction: Vec<String> = (0..9).map(|i| (m[i / 3][i % 3] / spacing[i % 3]).to_string()).collect();
        let extent = format!("0 {nx} 0 {ny} 0 {nz}");
        let mut out = format!(
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
        )
        .into_bytes();
        out.extend((4 * self.values.len() as u64).to_le_bytes());
        out.extend(self.values.iter().flat_map(|v| v.to_le_bytes()));
        out.extend(b"\n</AppendedData>\n</VTKFile>\n");
        out
    }
}
