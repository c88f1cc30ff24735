//! What was sent on connections, as a file.

use super::client::Api;

/// What was sent on one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recording {
    pub(super) api: Api,
    pub(super) inputs: Vec<Vec<u8>>,
}

/// Connections as bytes: for each the API and the number of inputs, for each input its length.
pub(super) fn write(recordings: &[Recording]) -> Vec<u8> {
    let mut out = Vec::new();
    let put = |out: &mut Vec<u8>, length: usize| {
        out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    };
    for recording in recordings {
        out.push(recording.api.number());
        put(&mut out, recording.inputs.len());
        for input in &recording.inputs {
            put(&mut out, input.len());
            out.extend_from_slice(input);
        }
    }
    out
}

/// The connections of a file, as far as it can be read.
pub(super) fn read(bytes: &[u8]) -> Vec<Recording> {
    let mut rest = bytes;
    std::iter::from_fn(|| one(&mut rest)).collect()
}

fn one(rest: &mut &[u8]) -> Option<Recording> {
    let (number, after) = rest.split_first()?;
    *rest = after;
    let api = Api::of_number(*number)?;
    let count = length(rest)?;
    let inputs = (0..count).map_while(|_| {
        let length = length(rest)?;
        let (input, after) = rest.split_at_checked(length)?;
        *rest = after;
        Some(input.to_vec())
    });
    Some(Recording {
        api,
        inputs: inputs.collect(),
    })
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    usize::try_from(u32::from_be_bytes(*length)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_kept_byte_for_byte() {
        let recordings: Vec<Recording> = Api::ALL
            .iter()
            .map(|api| Recording {
                api: *api,
                inputs: vec![Vec::new(), vec![0, 255, 10], b"text".to_vec()],
            })
            .collect();
        assert_eq!(read(&write(&recordings)), recordings);
        assert_eq!(read(&write(&recordings)[..9]).len(), 1);
    }
}
