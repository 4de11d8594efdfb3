//! A field file: any bytes give a field that can be evaluated and written again, or an error of one line.

use gausset_field::model::FieldModel;
use gausset_io::text::is_valid_message;

pub(crate) fn check(bytes: &[u8]) {
    match FieldModel::parse(bytes) {
        Err(error) => {
            let line = error.to_string();
            assert!(is_valid_message(&line), "{line:?}");
        }
        Ok(model) => {
            assert!(model.field.check().is_ok());
            let again = FieldModel::parse(&model.to_bytes()).expect("what was written can be read");
            assert_eq!(again.field.len(), model.field.len());
        }
    }
}
