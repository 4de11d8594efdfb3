//! Every condition that decides whether a thread reaches a barrier, by name: all threads of a workgroup have to agree
//! on it.
//!
//! A barrier that only a part of a workgroup reaches is undefined behaviour; lavapipe tolerates it, and a hardware GPU
//! hangs. So the conditions around each barrier, and those of statements that leave a loop or a function before one,
//! are extracted from the translator's form of each kernel and compared with a list that states why each is uniform.

use std::collections::BTreeMap;

use naga::valid::{Capabilities, FunctionInfo, ValidationFlags, Validator};
use naga::{Block, Expression, Function, Handle, Literal, LocalVariable, Module, Statement, TypeInner};

use crate::kernels::Kernel;
use crate::translation_tests::parsed;

/// Conditions by file-independent text, and why all threads of a workgroup see the same.
const UNIFORM: [(&str, &str); 19] = [
    ("((job.flags And FLAG_POSE) NotEqual 0)", "the unit's record"),
    ("((job.gain_row.x NotEqual NOWHERE) and (job.gain_rates.w NotEqual 0.0))", "a row of the unit's record"),
    ("((job.pose_row.x NotEqual NOWHERE) and (job.pose_rates.w NotEqual 0.0))", "a row of the unit's record"),
    ("((job.sky_row.x NotEqual NOWHERE) and (job.sky_rates.w NotEqual 0.0))", "a row of the unit's record"),
    (
        "((job.vignetting_row.x NotEqual NOWHERE) and (job.vignetting_rates.w NotEqual 0.0))",
        "a row of the unit's record",
    ),
    ("(batch Less loaded)", "a part of the list of the workgroup's tile"),
    ("(block Less blocks)", "counted from the unit's record"),
    ("(channel Less 3)", "a constant number of rounds"),
    ("(first Less blocks)", "counted from fields of the unit's record that are not written meanwhile"),
    ("(first Less end)", "the list of the workgroup's tile, which is not written meanwhile"),
    ("(first Less hi)", "the list of the workgroup's tile, by a uniform load"),
    ("(k Less 27)", "a constant number of rounds"),
    ("(k Less 3)", "a constant number of rounds"),
    ("(k Less 9)", "a constant number of rounds"),
    ("(reach Greater 0)", "halves from a constant on"),
    ("(reach Less 256)", "doubles from 1 on"),
    ("(round Less ROUNDS)", "a constant number of rounds"),
    ("(tile GreaterEqual band_end())", "the number of the workgroup"),
    ("has_gain()", "the unit's record"),
];

/// A function whose conditions are being collected.
struct Walk<'a> {
    module: &'a Module,
    function: &'a Function,
    info: &'a FunctionInfo,
    found: Vec<String>,
}

/// Whether a block contains a statement of a kind, at any depth; loops inside are searched if `enters_loops`.
fn has(block: &Block, enters_loops: bool, is_it: &dyn Fn(&Statement) -> bool) -> bool {
    block.iter().any(|statement| {
        is_it(statement)
            || match statement {
                Statement::Block(block) => has(block, enters_loops, is_it),
                Statement::If { accept, reject, .. } => {
                    has(accept, enters_loops, is_it) || has(reject, enters_loops, is_it)
                }
                Statement::Switch { cases, .. } => {
                    cases.iter().any(|case| has(&case.body, enters_loops, is_it))
                }
                Statement::Loop { body, continuing, .. } => {
                    enters_loops && (has(body, true, is_it) || has(continuing, true, is_it))
                }
                _ => false,
            }
    })
}

fn is_barrier(module: &Module, statement: &Statement) -> bool {
    match statement {
        Statement::ControlBarrier(_) | Statement::WorkGroupUniformLoad { .. } => true,
        Statement::Call { function, .. } => {
            has(&module.functions[*function].body, true, &|inner| is_barrier(module, inner))
        }
        _ => false,
    }
}

impl Walk<'_> {
    fn has_barrier(&self, block: &Block) -> bool {
        has(block, true, &|statement| is_barrier(self.module, statement))
    }

    /// `follows`: a barrier comes after the block, or before it in the next iteration of a loop; `rounds`: the
    /// innermost loop around it contains one.
    fn walk(&mut self, block: &Block, follows: bool, rounds: bool) {
        for (at, statement) in block.iter().enumerate() {
            let behind = follows
                || block.iter().skip(at + 1).any(|later| {
                    is_barrier(self.module, later)
                        || match later {
                            Statement::Block(block) => self.has_barrier(block),
                            Statement::If { accept, reject, .. } => {
                                self.has_barrier(accept) || self.has_barrier(reject)
                            }
                            Statement::Switch { cases, .. } => {
                                cases.iter().any(|case| self.has_barrier(&case.body))
                            }
                            Statement::Loop { body, continuing, .. } => {
                                self.has_barrier(body) || self.has_barrier(continuing)
                            }
                            _ => false,
                        }
                });
            match statement {
                Statement::Block(block) => self.walk(block, behind, rounds),
                Statement::If { condition, accept, reject } => {
                    self.branch(*condition, &[accept, reject], behind, rounds);
                }
                Statement::Switch { selector, cases } => {
                    let blocks: Vec<&Block> = cases.iter().map(|case| &case.body).collect();
                    self.branch(*selector, &blocks, behind, rounds);
                }
                Statement::Loop { body, continuing, break_if } => {
                    let inside = self.has_barrier(body) || self.has_barrier(continuing);
                    if let (Some(condition), true) = (break_if, inside) {
                        self.found.push(self.text(*condition));
                    }
                    self.walk(body, behind || inside, inside);
                    self.walk(continuing, behind || inside, inside);
                }
                _ => {}
            }
        }
    }

    fn branch(&mut self, condition: Handle<Expression>, blocks: &[&Block], behind: bool, rounds: bool) {
        let ends = |statement: &Statement| matches!(statement, Statement::Return { .. } | Statement::Kill);
        let leaves = |statement: &Statement| matches!(statement, Statement::Break | Statement::Continue);
        let decides = blocks.iter().any(|block| {
            self.has_barrier(block)
                || (behind && has(block, true, &ends))
                || (rounds && has(block, false, &leaves))
        });
        if decides {
            self.found.push(self.text(condition));
        }
        for block in blocks {
            self.walk(block, behind, rounds);
        }
    }

    /// An expression as WGSL-like text.
    fn text(&self, handle: Handle<Expression>) -> String {
        if let Some(name) = self.function.named_expressions.get(&handle) {
            return name.clone();
        }
        let of = |handle: Handle<Expression>| self.text(handle);
        match &self.function.expressions[handle] {
            Expression::Literal(literal) => match literal {
                Literal::U32(value) => value.to_string(),
                Literal::I32(value) => value.to_string(),
                Literal::Bool(value) => value.to_string(),
                Literal::F32(value) => format!("{value:?}"),
                other => format!("{other:?}"),
            },
            Expression::Constant(constant) => {
                self.module.constants[*constant].name.clone().unwrap_or_default()
            }
            Expression::FunctionArgument(index) => {
                self.function.arguments[*index as usize].name.clone().unwrap_or_default()
            }
            Expression::GlobalVariable(variable) => {
                self.module.global_variables[*variable].name.clone().unwrap_or_default()
            }
            Expression::LocalVariable(variable) => {
                match &self.function.local_variables[*variable].name {
                    Some(name) => name.clone(),
                    // A temporary of the translator, for `&&` and `||`.
                    None => format!("({})", self.stored(&self.function.body, *variable).join(" and ")),
                }
            }
            Expression::Load { pointer } => of(*pointer),
            Expression::AccessIndex { base, index } => {
                let base_text = of(*base);
                match self.base_type(*base) {
                    Some(TypeInner::Struct { members, .. }) => {
                        let name = members[*index as usize].name.clone().unwrap_or_default();
                        format!("{base_text}.{name}")
                    }
                    Some(TypeInner::Array { .. }) => format!("{base_text}[{index}]"),
                    _ => format!("{base_text}.{}", ["x", "y", "z", "w"][*index as usize % 4]),
                }
            }
            Expression::Access { base, index } => format!("{}[{}]", of(*base), of(*index)),
            Expression::Binary { op, left, right } => format!("({} {op:?} {})", of(*left), of(*right)),
            Expression::Unary { op, expr } => format!("{op:?} {}", of(*expr)),
            Expression::CallResult(function) => {
                format!("{}()", self.module.functions[*function].name.clone().unwrap_or_default())
            }
            other => format!("{other:?}"),
        }
    }

    /// The values stored in a variable, and the conditions on which they depend.
    fn stored(&self, block: &Block, variable: Handle<LocalVariable>) -> Vec<String> {
        let is_it = |pointer: Handle<Expression>| matches!(self.function.expressions[pointer], Expression::LocalVariable(stored) if stored == variable);
        let mut found = Vec::new();
        for statement in block {
            match statement {
                Statement::Store { pointer, value } if is_it(*pointer) => {
                    let text = self.text(*value);
                    found.extend((text != "false").then_some(text));
                }
                Statement::Block(block) => found.extend(self.stored(block, variable)),
                Statement::If { condition, accept, reject } => {
                    let inner = [self.stored(accept, variable), self.stored(reject, variable)].concat();
                    if !inner.is_empty() {
                        found.push(self.text(*condition));
                        found.extend(inner);
                    }
                }
                Statement::Loop { body, continuing, .. } => {
                    found.extend([self.stored(body, variable), self.stored(continuing, variable)].concat());
                }
                _ => {}
            }
        }
        found
    }

    /// The type of an expression, or of the value that it points to.
    fn base_type(&self, handle: Handle<Expression>) -> Option<&TypeInner> {
        match self.info[handle].ty.inner_with(&self.module.types) {
            TypeInner::Pointer { base, .. } => Some(&self.module.types[*base].inner),
            TypeInner::ValuePointer { .. } => None,
            other => Some(other),
        }
    }
}

/// The conditions before barriers of a kernel.
fn conditions(kernel: Kernel) -> Vec<String> {
    let (module, info) = parsed(kernel);
    let entry = kernel.source().entry;
    let entries = module.entry_points.iter().enumerate().filter(|(_, point)| point.name == entry);
    let entries = entries.map(|(place, point)| (&point.function, info.get_entry_point(place)));
    let functions = module.functions.iter().map(|(handle, function)| (function, &info[handle]));
    let mut found = Vec::new();
    for (function, info) in functions.chain(entries) {
        let mut walk = Walk { module: &module, function, info, found: Vec::new() };
        walk.walk(&function.body, false, false);
        found.append(&mut walk.found);
    }
    found
}

#[test]
fn all_threads_agree_on_every_condition_before_a_barrier() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kernel in Kernel::all() {
        for condition in conditions(kernel) {
            found.entry(condition).or_default().push(kernel.label());
        }
    }
    let unknown: Vec<_> =
        found.iter().filter(|(condition, _)| !UNIFORM.iter().any(|(known, _)| known == condition)).collect();
    assert!(
        unknown.is_empty(),
        "they decide who reaches a barrier; are they the same in all threads? {unknown:#?}"
    );
    let gone: Vec<_> = UNIFORM.iter().filter(|(known, _)| !found.contains_key(*known)).collect();
    assert!(gone.is_empty(), "before no barrier any more: {gone:#?}");
}

#[test]
fn a_barrier_that_a_part_of_a_workgroup_misses_is_seen() {
    let conditions = |body: &str| {
        let text = format!(
            "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
             fn meet() {{ workgroupBarrier(); }}
             @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) thread: u32) {{ {body} }}"
        );
        let module = naga::front::wgsl::parse_str(&text).expect("WGSL");
        let info = Validator::new(ValidationFlags::all(), Capabilities::default()).validate(&module);
        let info = info.expect("valid but for what threads agree on");
        let function = &module.entry_points[0].function;
        let mut walk = Walk { module: &module, function, info: info.get_entry_point(0), found: Vec::new() };
        walk.walk(&function.body, false, false);
        walk.found
    };
    assert_eq!(conditions("if (thread < 3u) { data[0] = 1u; } workgroupBarrier();"), [""; 0]);
    assert_eq!(conditions("if (thread < 3u) { workgroupBarrier(); }"), ["(thread Less 3)"]);
    assert_eq!(conditions("if (thread < 3u) { return; } meet();"), ["(thread Less 3)"]);
    assert_eq!(conditions("workgroupBarrier(); if (thread < 3u) { return; }"), [""; 0]);
    let round = "for (var i = thread; i < data[1]; i++) { meet(); }";
    assert_eq!(conditions(round), ["(i Less data[1])"]);
    let left = "for (var i = 0u; i < 4u; i++) { workgroupBarrier(); if (data[thread] > i) { break; } }";
    assert_eq!(conditions(left), ["(i Less 4)", "(data[thread] Greater i)"]);
    let inner =
        "for (var i = 0u; i < 4u; i++) { loop { if (data[i] > thread) { break; } } workgroupBarrier(); }";
    assert_eq!(conditions(inner), ["(i Less 4)"]);
}
