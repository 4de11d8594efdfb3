//! Secrets that admit a page: 128 random bits as 32 hexadecimal digits.

use std::fmt;

/// A secret. It has no `Display`, and `Debug` does not reveal it.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// A new secret from the operating system's random generator.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0u8; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Its digits, for the URL that is shown to the user.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether a guess is right. Takes the same time for all guesses of the right length.
    pub(crate) fn matches(&self, guess: &str) -> bool {
        let (secret, guess) = (self.0.as_bytes(), guess.as_bytes());
        let differences = secret.iter().zip(guess).fold(0u8, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differences) == 0 && secret.len() == guess.len()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_128_bits_that_only_it_fits() {
        let (token, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(token.reveal().len(), 32);
        assert!(token.matches(token.reveal()) && !token.matches(other.reveal()));
        assert!(
            !token.matches("")
                && !token.matches(&token.reveal()[..31])
                && !token.matches(&format!("{}0", token.reveal()))
        );
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
