//! Whether a training view confirms the depth of a pixel of another view: the point projects into its image, and the
//! depth rendered there agrees within a tenth.

use gausset_core::{Camera, Pose};

use super::depth_maps::{DepthMap, TOLERANCE};

/// A training view that confirms pixels of another view.
pub(super) struct ConfirmingView<'a> {
    /// Its position, in the coordinates of the other camera.
    pub(super) centre: [f64; 3],
    projection: Projection<'a>,
}

/// How a pixel with a depth reaches the map of a view. In f32: agreement of depths within a tenth needs no more.
enum Projection<'a> {
    Pinhole(PinholeProjection<'a>),
    /// One of the two is a panorama: the pixel is transformed through camera coordinates, in f64.
    Any {
        camera: &'a Camera,
        map: &'a DepthMap,
        map_from_camera: Pose,
    },
}

impl<'a> ConfirmingView<'a> {
    pub(super) fn new((camera, pose): (&'a Camera, &Pose), map: &'a DepthMap) -> Self {
        let map_from_camera = map.pose.compose(&pose.inverse());
        let centre = map_from_camera.centre();
        let projection = if camera.is_pinhole() && map.camera.is_pinhole() {
            Projection::Pinhole(PinholeProjection::new(camera, map, &map_from_camera))
        } else {
            Projection::Any { camera, map, map_from_camera }
        };
        Self { centre, projection }
    }

    /// Whether the point at `depth` of a pixel is on the surface that this view sees.
    pub(super) fn confirms(&self, pixel: [f32; 2], depth: f32) -> bool {
        match &self.projection {
            Projection::Pinhole(projection) => projection.confirms(pixel, depth),
            Projection::Any { camera, map, map_from_camera } => {
                let point = camera.ray(pixel.map(f64::from)).map(|v| v * f64::from(depth));
                map.has_surface_at(map_from_camera.apply(point), 0.0)
            }
        }
    }
}

/// From a pinhole camera to the map of another one.
struct PinholeProjection<'a> {
    depths: &'a [f32],
    /// Width and height of the map.
    size: [f32; 2],
    /// From `(u z, v z, z)` of the view to `(u' z', v' z', z')` of the map.
    from_pixel: [[f32; 3]; 3],
    offset: [f32; 3],
}

impl<'a> PinholeProjection<'a> {
    fn new(camera: &Camera, map: &'a DepthMap, map_from_camera: &Pose) -> Self {
        let &Pose { rotation: [x, y, z], translation: t } = map_from_camera;
        // Multiply by the intrinsics of the map from the left ...
        let to = &map.camera;
        let along = |f: f64, row: [f64; 3], c: f64| std::array::from_fn(|k| f * row[k] + c * z[k]);
        let rows: [[f64; 3]; 3] = [along(to.fx, x, to.cx), along(to.fy, y, to.cy), z];
        let offset = [to.fx * t[0] + to.cx * t[2], to.fy * t[1] + to.cy * t[2], t[2]];
        // ... and by the inverse intrinsics of the view from the right.
        let from_pixel = rows.map(|[x, y, z]| {
            let (x, y) = (x / camera.fx, y / camera.fy);
            [x, y, z - x * camera.cx - y * camera.cy].map(|v| v as f32)
        });
        let size = [to.width as f32, to.height as f32];
        Self { depths: &map.depths, size, from_pixel, offset: offset.map(|v| v as f32) }
    }

    /// Whether the point at `depth` of a pixel is on the surface that this view sees.
    fn confirms(&self, [u, v]: [f32; 2], depth: f32) -> bool {
        let axis = |k: usize| {
            let [x, y, z] = self.from_pixel[k];
            (x * u + y * v + z) * depth + self.offset[k]
        };
        let z = axis(2);
        if z.is_nan() || z <= 0.0 {
            return false;
        }
        let inverse = 1.0 / z;
        let (u, v) = (axis(0) * inverse, axis(1) * inverse);
        let [width, height] = self.size;
        // These comparisons are false for NaN.
        if !(u >= 0.0 && u < width && v >= 0.0 && v < height) {
            return false;
        }
        let seen = self.depths[v as usize * width as usize + u as usize];
        (seen - z).abs() <= TOLERANCE * z
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A camera at `x` that looks along +z.
    fn pose(x: f64) -> Pose {
        Pose { translation: [-x, 0.0, 0.0], ..Pose::IDENTITY }
    }

    /// A map of 20x10 px that sees a wall at this depth.
    fn map(depth: f32, pose: Pose) -> DepthMap {
        let camera = Camera::new(20, 10, 20.0, 20.0, 10.0, 5.0).unwrap();
        DepthMap { index: 0, camera, pose, depths: vec![depth; 200] }
    }

    #[test]
    fn a_point_is_confirmed_where_it_lands_on_a_surface_of_the_same_depth() {
        let camera = Camera::new(40, 20, 40.0, 40.0, 20.0, 10.0).unwrap();
        let view = (&camera, &pose(0.0));
        let wall = map(4.0, pose(1.0));
        let witness = ConfirmingView::new(view, &wall);
        assert_eq!(witness.centre, [1.0, 0.0, 0.0]);
        let middle = [20.0, 10.0];
        assert!(
            witness.confirms(middle, 4.0) && witness.confirms(middle, 4.3) && witness.confirms(middle, 3.7)
        );
        assert!(!witness.confirms(middle, 4.5) && !witness.confirms(middle, 3.6));
        assert!(!witness.confirms(middle, f32::NAN) && !witness.confirms(middle, -4.0));
        // The left edge at depth 4 is 2 units left of the axis, 3 from the other camera, which sees 2.
        assert!(!witness.confirms([0.5, 10.0], 4.0));
        // From the other side it is 1 unit away.
        assert!(ConfirmingView::new(view, &map(4.0, pose(-1.0))).confirms([0.5, 10.0], 4.0));
        let hole = map(f32::NAN, pose(1.0));
        assert!(!ConfirmingView::new(view, &hole).confirms(middle, 4.0));
        // From behind, the wall is behind the camera.
        let back = Pose { rotation: [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]], ..pose(0.0) };
        assert!(!ConfirmingView::new(view, &map(4.0, back)).confirms(middle, 4.0));
    }
}
