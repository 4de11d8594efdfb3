//! Support for test engines that wrap another engine.

/// Methods of an `Engine` that forward to the inner engine, in an `impl Engine for` a wrapper:
/// `forward_to_engine!(|self| self.inner; describe needs load save)`.
#[macro_export]
macro_rules! forward_to_engine {
    (|$this:ident| $inner:expr; $($method:ident)*) => {
        $($crate::forward_to_engine!(@$method $this $inner);)*
    };
    (@describe $this:ident $inner:expr) => {
        fn describe(&$this) -> $crate::engine::DeviceInfo {
            $inner.describe()
        }
    };
    (@needs $this:ident $inner:expr) => {
        fn memory_needs(&$this, scene: &$crate::engine::SceneSize) -> $crate::engine::MemoryEstimate {
            $inner.memory_needs(scene)
        }
    };
    (@limit_memory $this:ident $inner:expr) => {
        fn limit_memory(&mut $this, bytes: u64) {
            $inner.limit_memory(bytes);
        }
    };
    (@load $this:ident $inner:expr) => {
        $crate::forward_to_engine!(@call $this $inner, load(state: $crate::engine::TrainState) -> ());
    };
    (@load_splats $this:ident $inner:expr) => {
        $crate::forward_to_engine!(@call $this $inner, load_splats(
            splats: $crate::Splats, extras: Vec<$crate::engine::CorrectionGroup>) -> ());
    };
    (@save $this:ident $inner:expr) => {
        $crate::forward_to_engine!(@call $this $inner, save() -> $crate::engine::TrainState);
    };
    (@corrections $this:ident $inner:expr) => {
        $crate::forward_to_engine!(@call $this $inner, read_corrections() -> Vec<$crate::engine::CorrectionGroup>);
    };
    (@step $this:ident $inner:expr) => {
        $crate::forward_to_engine!(@call $this $inner, step(
            views: &[$crate::engine::TrainView], next: &[$crate::engine::TrainView],
            params: &$crate::engine::StepParams) -> ());
    };
    (@densify $this:ident $inner:expr) => {
        $crate::forward_to_engine!(@call $this $inner, densify(rule: &$crate::engine::DensityRule) -> ());
    };
    (@flush $this:ident $inner:expr) => {
        $crate::forward_to_engine!(@call $this $inner, flush() -> $crate::engine::StepReport);
    };
    (@poll $this:ident $inner:expr) => {
        $crate::forward_to_engine!(@call $this $inner, poll() -> $crate::engine::StepReport);
    };
    (@render_into $this:ident $inner:expr) => {
        $crate::forward_to_engine!(@call $this $inner, render_into(
            camera: &$crate::Camera, pose: &$crate::Pose, options: &$crate::engine::RenderOptions,
            outputs: $crate::engine::Outputs, rendering: &mut $crate::engine::Rendering) -> ());
    };
    (@weight_in_front $this:ident $inner:expr) => {
        $crate::forward_to_engine!(@call $this $inner, weight_in_front(
            camera: &$crate::Camera, pose: &$crate::Pose, options: &$crate::engine::RenderOptions,
            queries: &[$crate::engine::OcclusionQuery]) -> Option<Vec<f32>>);
    };
    (@call $this:ident $inner:expr, $method:ident($($name:ident: $kind:ty),*) -> $result:ty) => {
        fn $method(&mut $this, $($name: $kind),*) -> Result<$result, $crate::engine::EngineError> {
            $inner.$method($($name),*)
        }
    };
}
