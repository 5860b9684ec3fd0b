//! Packets of MQTT taken apart as far as sending some of them twice needs: where each ends, and what number it has.
//!
//! A PUBLISH at QoS 1 is sent again right after itself, and once more when its sender has been told that it arrived; both with
//! the same number and the mark of a repeat. What is to be retained is not sent that late: it would take the place of what was
//! retained since, which no sender of MQTT does. Each repeat is acknowledged as well, and that is kept from the sender, to whom it
//! would be an acknowledgement of nothing.

use std::collections::HashMap;

/// What both directions of one connection know of what one of them sent twice.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// By number, the acknowledgements to keep from the sender.
    surplus: HashMap<u16, u32>,
    /// What is to be sent once more when its acknowledgement has passed.
    held: HashMap<u16, Vec<u8>>,
    /// What is to be sent with whatever comes next.
    again: Vec<u8>,
    /// How many were sent.
    pub(super) sent: u64,
}

/// One direction: what of a packet has come so far.
#[derive(Debug, Default)]
pub(super) struct Packets {
    inbox: Vec<u8>,
}

impl Packets {
    /// Takes what was read and gives what is to be written: whole packets. `mine` is what this direction sent twice, `theirs`
    /// what the other one did.
    pub(super) fn pass(&mut self, piece: &[u8], doubling: bool, mine: &mut Repeats, theirs: &mut Repeats) -> Vec<u8> {
        self.inbox.extend_from_slice(piece);
        let mut out = std::mem::take(&mut mine.again);
        let mut taken = 0;
        while let Some(packet) = self.inbox.get(taken..).and_then(first) {
            taken += packet.len();
            match number(packet) {
                Some((PUBLISH, id)) if doubling => {
                    out.extend_from_slice(packet);
                    let repeat = marked(packet);
                    out.extend_from_slice(&repeat);
                    *mine.surplus.entry(id).or_default() += 1;
                    if packet.first().is_some_and(|first| first & RETAIN == 0) {
                        mine.held.insert(id, repeat);
                    }
                    mine.sent += 1;
                }
                Some((PUBACK, id)) if theirs.acknowledged(id) => {}
                _ => out.extend_from_slice(packet),
            }
        }
        self.inbox.drain(..taken);
        out
    }
}

impl Repeats {
    /// Whether this acknowledgement is for a repeat, and is to be kept back.
    fn acknowledged(&mut self, id: u16) -> bool {
        if let Some(surplus) = self.surplus.get_mut(&id).filter(|surplus| **surplus > 0) {
            *surplus -= 1;
            return true;
        }
        if let Some(repeat) = self.held.remove(&id) {
            self.again.extend_from_slice(&repeat);
            *self.surplus.entry(id).or_default() += 1;
            self.sent += 1;
        }
        false
    }
}

/// The first whole packet.
fn first(bytes: &[u8]) -> Option<&[u8]> {
    let (head, length) = head(bytes)?;
    bytes.get(..head + length)
}

/// How long the fixed header is and how long what follows it.
fn head(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut length = 0;
    for (at, byte) in bytes.iter().skip(1).take(4).enumerate() {
        length |= usize::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((at + 2, length));
        }
    }
    None
}

/// The kind and the number of a PUBLISH at QoS 1 or of a PUBACK.
fn number(packet: &[u8]) -> Option<(u8, u16)> {
    let (kind, flags) = (packet.first()? & 0xF0, packet.first()? & 0x06);
    let body = packet.get(head(packet)?.0..)?;
    let after = match (kind, flags) {
        (PUBLISH, QOS_1) => {
            let topic = u16::from_be_bytes(*body.first_chunk()?);
            body.get(2 + usize::from(topic)..)?
        }
        (PUBACK, _) => body,
        _ => return None,
    };
    Some((kind, u16::from_be_bytes(*after.first_chunk()?)))
}

fn marked(packet: &[u8]) -> Vec<u8> {
    let mut repeat = packet.to_vec();
    if let Some(first) = repeat.first_mut() {
        *first |= DUP;
    }
    repeat
}

const PUBLISH: u8 = 0x30;
const PUBACK: u8 = 0x40;
const QOS_1: u8 = 0x02;
const DUP: u8 = 0x08;
const RETAIN: u8 = 0x01;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A PUBLISH at QoS 1 to the topic `t`.
    pub(in super::super) fn publish(id: u16, payload: &[u8]) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        let mut packet = vec![PUBLISH | QOS_1, u8::try_from(payload.len() + 6).unwrap(), 0, 1, b't', high, low, 0];
        packet.extend_from_slice(payload);
        packet
    }

    /// Its acknowledgement.
    pub(in super::super) fn puback(id: u16) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        vec![PUBACK, 2, high, low]
    }

    #[test]
    fn packets_pass_whole_and_unchanged_while_nothing_is_doubled() {
        let (mut packets, mut mine, mut theirs) = (Packets::default(), Repeats::default(), Repeats::default());
        let sent = [publish(1, b"one"), vec![0xC0, 0], puback(9), publish(2, &[7; 100])].concat();
        let mut got = Vec::new();
        for byte in &sent {
            got.extend(packets.pass(&[*byte], false, &mut mine, &mut theirs));
        }
        assert_eq!((got, mine.sent), (sent, 0));
    }

    #[test]
    fn a_publish_goes_out_again_before_its_acknowledgement_and_after_it() {
        let (mut there, mut back) = (Packets::default(), Packets::default());
        let (mut mine, mut theirs) = (Repeats::default(), Repeats::default());
        let (packet, repeat) = (publish(5, b"x"), marked(&publish(5, b"x")));
        assert_eq!(there.pass(&packet, true, &mut mine, &mut theirs), [packet, repeat.clone()].concat());
        // Two acknowledgements come back and one passes, which brings the second repeat about.
        assert_eq!(back.pass(&[puback(5), puback(5)].concat(), true, &mut theirs, &mut mine), puback(5));
        assert_eq!(there.pass(&[0xC0, 0], false, &mut mine, &mut theirs), [repeat, vec![0xC0, 0]].concat());
        assert_eq!(back.pass(&puback(5), false, &mut theirs, &mut mine), Vec::<u8>::new());
        assert_eq!(back.pass(&puback(6), false, &mut theirs, &mut mine), puback(6), "of another");
        assert_eq!(mine.sent, 2);
    }

    #[test]
    fn what_is_retained_does_not_come_back_after_its_acknowledgement() {
        let (mut there, mut back) = (Packets::default(), Packets::default());
        let (mut mine, mut theirs) = (Repeats::default(), Repeats::default());
        let mut packet = publish(5, b"x");
        packet[0] |= RETAIN;
        assert_eq!(there.pass(&packet, true, &mut mine, &mut theirs).len(), 2 * packet.len());
        assert_eq!(back.pass(&[puback(5), puback(5)].concat(), true, &mut theirs, &mut mine), puback(5));
        assert_eq!(there.pass(&[0xC0, 0], true, &mut mine, &mut theirs), [0xC0, 0]);
    }

    #[test]
    fn what_nobody_acknowledges_is_not_doubled() {
        let (mut packets, mut mine, mut theirs) = (Packets::default(), Repeats::default(), Repeats::default());
        let packet = [PUBLISH, 4, 0, 1, b't', 0];
        assert_eq!(packets.pass(&packet, true, &mut mine, &mut theirs), packet);
    }
}
