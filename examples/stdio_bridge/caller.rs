use mcp_layer::Client;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

/// Notifications that wait for a client to read them.
const MOST_NOTES: usize = 64;

/// Who waits for a call.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) client: Client,
    pub(crate) notes: mpsc::Sender<Note>,
    /// Progress is all that it may hear.
    pub(crate) is_modern: bool,
}

/// A notification on its way to a client.
#[derive(Debug)]
pub(crate) enum Note {
    Other { method: String, params: Box<RawValue> },
    Progress { progress: f64, total: Option<f64>, message: Option<String> },
}

impl Caller {
    pub(crate) fn new(client: Client, is_modern: bool) -> (Self, mpsc::Receiver<Note>) {
        let (notes, heard) = mpsc::channel(MOST_NOTES);
        (Self { client, notes, is_modern }, heard)
    }

    pub(crate) fn hear(&self, note: Note) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.notes.try_send(note) {
            tracing::warn!("a client does not read: a notification is dropped");
        }
    }
}
