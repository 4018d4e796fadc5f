//! The live view: the whole screen, until somebody leaves. The terminal is given back as it was, also after a panic.

use std::io::{self, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};
use tokio::sync::mpsc;
use wakepost_client::Error;

use super::look::{Looker, Snapshot};
use super::view;
use crate::commands::following::Stop;
use crate::output::{Cell, Paint, Tone};

/// How long the keyboard is listened to at a time: how fast it is let go at the end.
const LISTEN: Duration = Duration::from_millis(100);
/// How many keys wait at most.
const KEYS_MAX: usize = 64;

/// What somebody pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Leave,
    Up(usize),
    Down(usize),
    Top,
    Bottom,
    Redraw,
}

/// Shows how the server stands until somebody leaves. A first look that fails is an error; a later one is told on the
/// screen, and tried again.
pub async fn run(mut looker: Looker, paint: Paint, every: Duration) -> anyhow::Result<()> {
    let first = looker.look().await?;
    let mut stop = Stop::new()?;
    let _taken = Taken::take()?;
    let (keyboard, mut keys) = Keyboard::listen();
    let mut looks = looking(looker, every);
    let mut screen = Screen { paint, snapshot: first, trouble: None, first_line: 0, every };
    loop {
        screen.draw(&mut io::stdout())?;
        tokio::select! {
            () = stop.wanted() => break,
            looked = looks.recv() => match looked {
                Some(looked) => screen.show(looked)?,
                None => break,
            },
            key = keys.recv() => match key {
                Some(Key::Leave) | None => break,
                Some(key) => screen.press(key),
            },
        }
    }
    drop(keyboard);
    Ok(())
}

/// Looks again and again, beside the keyboard: a slow server must not make keys slow.
fn looking(mut looker: Looker, every: Duration) -> mpsc::Receiver<Result<Snapshot, Error>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            if sender.send(looker.look().await).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// What is on the screen.
struct Screen {
    paint: Paint,
    snapshot: Snapshot,
    trouble: Option<String>,
    first_line: usize,
    every: Duration,
}

impl Screen {
    /// Takes a look over. What will never work again is the end.
    fn show(&mut self, looked: Result<Snapshot, Error>) -> Result<(), Error> {
        match looked {
            Ok(snapshot) => (self.snapshot, self.trouble) = (snapshot, None),
            Err(error) if error.is_transient() => self.trouble = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn press(&mut self, key: Key) {
        self.first_line = match key {
            Key::Up(by) => self.first_line.saturating_sub(by),
            Key::Down(by) => self.first_line.saturating_add(by),
            Key::Top => 0,
            // Drawing brings it back to the last screenful.
            Key::Bottom => usize::MAX,
            Key::Leave | Key::Redraw => self.first_line,
        };
    }

    fn draw(&mut self, out: &mut Stdout) -> io::Result<()> {
        let (_, rows) = terminal::size()?;
        let text = self.text(usize::from(rows));
        queue!(out, BeginSynchronizedUpdate)?;
        for (row, line) in text.iter().enumerate() {
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            // Cleared first: what is too long ends on the last column, which must stay.
            queue!(out, MoveTo(0, row), Clear(ClearType::UntilNewLine))?;
            out.write_all(line.as_bytes())?;
        }
        queue!(out, EndSynchronizedUpdate)?;
        out.flush()
    }

    /// The lines of a screen of this height; the last says how to leave, and what is wrong.
    fn text(&mut self, rows: usize) -> Vec<String> {
        let lines = view::lines(&self.snapshot, self.paint);
        let room = rows.saturating_sub(1);
        self.first_line = self.first_line.min(lines.len().saturating_sub(room));
        let shown = lines.iter().skip(self.first_line).take(room);
        let mut text: Vec<String> = shown.cloned().collect();
        text.resize(room, String::new());
        let hidden = lines.len().saturating_sub(self.first_line + room);
        if rows > 0 {
            text.push(self.footer(hidden).render(self.paint));
        }
        text
    }

    fn footer(&self, hidden: usize) -> Cell {
        if let Some(trouble) = &self.trouble {
            return Cell::toned(Tone::Bad, &format!("{trouble}; trying again"));
        }
        let more = match (self.first_line, hidden) {
            (0, 0) => String::new(),
            _ => format!("  ↑↓ scroll, {hidden} more below"),
        };
        Cell::toned(Tone::Dim, &format!("q leaves  every {} s{more}", self.every.as_secs()))
    }
}

/// The terminal, as long as it is ours.
struct Taken;

impl Taken {
    fn take() -> anyhow::Result<Taken> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        terminal::enable_raw_mode()?;
        // From here on it is given back whatever fails.
        let taken = Taken;
        execute!(io::stdout(), EnterAlternateScreen, Hide, DisableLineWrap)?;
        Ok(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // There is nobody to tell if the terminal is gone.
    let _ =
        execute!(io::stdout(), EndSynchronizedUpdate, EnableLineWrap, Show, LeaveAlternateScreen);
    let _ = terminal::disable_raw_mode();
}

/// A thread that reads the keyboard, until it is dropped.
struct Keyboard {
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Keyboard {
    fn listen() -> (Keyboard, mpsc::Receiver<Key>) {
        let (sender, receiver) = mpsc::channel(KEYS_MAX);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                match event::poll(LISTEN).and_then(|any| any.then(event::read).transpose()) {
                    Ok(None) => {}
                    // Keys that nobody keeps up with are dropped.
                    Ok(Some(event)) => {
                        if let Some(key) = key(&event) {
                            let _ = sender.try_send(key);
                        }
                    }
                    // No keyboard: the screen goes on until a signal comes, or ends if it is closed.
                    Err(_) => return,
                }
            }
        });
        (Keyboard { is_over, thread: Some(thread) }, receiver)
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it read last does not matter any more.
            let _ = thread.join();
        }
    }
}

/// What a key means here.
fn key(event: &Event) -> Option<Key> {
    let (code, modifiers) = match event {
        Event::Resize(..) => return Some(Key::Redraw),
        Event::Key(KeyEvent { code, modifiers, kind, .. }) if *kind != KeyEventKind::Release => {
            (*code, *modifiers)
        }
        _ => return None,
    };
    let is_control = modifiers.contains(KeyModifiers::CONTROL);
    match code {
        KeyCode::Char('c' | 'd') if is_control => Some(Key::Leave),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Leave),
        KeyCode::Up | KeyCode::Char('k') => Some(Key::Up(1)),
        KeyCode::Down | KeyCode::Char('j') => Some(Key::Down(1)),
        KeyCode::PageUp => Some(Key::Up(10)),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(Key::Down(10)),
        KeyCode::Home | KeyCode::Char('g') => Some(Key::Top),
        KeyCode::End | KeyCode::Char('G') => Some(Key::Bottom),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn screen(lanes: usize) -> Screen {
        let lanes: Vec<_> = (0..lanes).map(|n| json!({"kind": format!("k{n}")})).collect();
        let stats = serde_json::from_value(json!({"tenant": "t", "lanes": lanes})).expect("stats");
        let snapshot = Snapshot { stats, ..Snapshot::default() };
        let every = Duration::from_secs(1);
        Screen { paint: Paint(false), snapshot, trouble: None, first_line: 0, every }
    }

    #[test]
    fn a_screen_has_as_many_lines_as_the_terminal() {
        for rows in [0, 1, 2, 10, 200] {
            assert_eq!(screen(20).text(rows).len(), rows);
        }
    }

    #[test]
    fn long_lists_scroll_and_stop_at_their_ends() {
        let mut screen = screen(50);
        assert!(screen.text(20)[19].contains("more below"));
        screen.press(Key::Bottom);
        let text = screen.text(20);
        assert!(text[18].contains("k49") && text[19].contains(" 0 more below"), "{text:?}");
        screen.press(Key::Up(1));
        assert!(screen.text(20)[18].contains("k48"));
        screen.press(Key::Top);
        screen.press(Key::Up(1));
        assert!(screen.text(20)[0].starts_with("wakepost"));
    }

    #[test]
    fn trouble_is_told_and_what_was_seen_stays() {
        let mut screen = screen(3);
        let gone =
            Error::Unreachable { url: "http://h".to_owned(), reason: "re\u{7}fused".to_owned() };
        screen.show(Err(gone)).expect("it goes on");
        let text = screen.text(30).join("\n");
        assert!(text.contains("cannot reach http://h: re\\u{7}fused; trying again"), "{text}");
        assert!(text.contains("k2"));
        assert!(screen.show(Err(Error::Protocol("odd".to_owned()))).is_err());
    }

    #[test]
    fn keys_mean_what_people_expect() {
        let press = |code, modifiers| key(&Event::Key(KeyEvent::new(code, modifiers)));
        let none = KeyModifiers::NONE;
        assert_eq!(press(KeyCode::Char('q'), none), Some(Key::Leave));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Leave));
        assert_eq!(press(KeyCode::Char('c'), none), None);
        assert_eq!(press(KeyCode::Down, none), Some(Key::Down(1)));
        assert_eq!(key(&Event::Resize(1, 1)), Some(Key::Redraw));
    }
}
