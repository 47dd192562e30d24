//! Fuzzes the configuration file: any text is settings that their own checks allow, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_cli::config::parse_file;

fuzz_target!(|text: &str| {
    match parse_file(text) {
        Ok(settings) => {
            for (setting, value) in settings {
                assert!(text.contains(setting.key), "{} = {value} from nowhere", setting.key);
            }
        }
        Err(message) => assert!(!message.is_empty()),
    }
});
