//! Placement of labels beside points, so that no label covers another label or a point.
//!
//! The placement is a plain function of its input, so a report is the same on every machine. The
//! width of a text is estimated, because the font of the reader is not known.

/// A point of a picture, in SVG units. y grows downwards.
pub(super) type Place = (f64, f64);

/// The height of a line of text, and an estimate of the width of a character, in SVG units. Text
/// is 12 units high. The estimate suits `DejaVu Sans`, which is wider than most fonts.
const LINE: f64 = 14.0;
const CHARACTER: f64 = 7.4;

/// The distance between a point and a label beside it.
const GAP: f64 = 7.0;

/// A label that is further than this from its point gets a line to it.
const NEAR: f64 = 12.0;

/// How many units of distance it costs when a label or its line crosses a line of the picture.
const CROSSING: f64 = 40.0;

/// The distances between the places that are tried for a label that must be drawn.
const GRID: Place = (10.0, 6.0);

/// A rectangle of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

/// A label to place.
#[derive(Clone, Debug)]
pub(super) struct Label {
    pub(super) text: String,
    /// The points that it can name, the preferred one first.
    pub(super) anchors: Vec<Place>,
    /// Whether the label may be far from its point. Other labels are left out instead.
    pub(super) needed: bool,
}

/// What labels keep clear of.
pub(super) struct Clear {
    /// The rectangle that labels stay within.
    pub(super) bounds: Rect,
    /// The rectangles that no label may overlap, such as points.
    pub(super) taken: Vec<Rect>,
    /// The lines that labels cross only if there is no other room.
    pub(super) lines: Vec<[Place; 2]>,
}

/// A label with its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlacedLabel {
    pub(super) anchor: Place,
    pub(super) rect: Rect,
    /// The line from the point to the label, if the label is not beside the point.
    pub(super) leader: Option<[Place; 2]>,
}

impl Rect {
    pub(super) fn around((x, y): Place, radius: f64) -> Self {
        Self { left: x - radius, top: y - radius, right: x + radius, bottom: y + radius }
    }

    pub(super) fn width(self) -> f64 {
        self.right - self.left
    }

    pub(super) fn height(self) -> f64 {
        self.bottom - self.top
    }

    fn overlaps(self, other: Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn contains(self, other: Self) -> bool {
        self.left <= other.left
            && other.right <= self.right
            && self.top <= other.top
            && other.bottom <= self.bottom
    }

    /// Returns the point of the rectangle that is closest to `place`.
    fn closest(self, (x, y): Place) -> Place {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }

    /// Whether a part of the line is inside.
    pub(super) fn is_crossed_by(self, [from, to]: [Place; 2]) -> bool {
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        let sides = [(from.0, to.0, self.left, self.right), (from.1, to.1, self.top, self.bottom)];
        for (from, to, low, high) in sides {
            let along = to - from;
            if along == 0.0 {
                if from <= low || from >= high {
                    return false;
                }
                continue;
            }
            let (a, b) = ((low - from) / along, (high - from) / along);
            enters = enters.max(a.min(b));
            leaves = leaves.min(a.max(b));
        }
        enters < leaves
    }
}

/// Places labels in their order: an earlier label has the better place.
///
/// A label without room is `None`. A needed label lacks room only when the picture is full.
pub(super) fn place(labels: &[Label], clear: &Clear) -> Vec<Option<PlacedLabel>> {
    let mut placed: Vec<Option<PlacedLabel>> = Vec::with_capacity(labels.len());
    for label in labels {
        let others: Vec<PlacedLabel> = placed.iter().flatten().copied().collect();
        placed.push(best(label, clear, &others));
    }
    placed
}

fn best(label: &Label, clear: &Clear, others: &[PlacedLabel]) -> Option<PlacedLabel> {
    let size = (label.text.chars().count() as f64 * CHARACTER, LINE);
    let mut best: Option<(f64, PlacedLabel)> = None;
    for &anchor in &label.anchors {
        let beside = beside(anchor, size).into_iter();
        let anywhere = anywhere(clear.bounds, size).filter(|_| label.needed);
        for rect in beside.chain(anywhere) {
            let placed = PlacedLabel::of(anchor, rect);
            let distance = placed.distance();
            let is_better = |cost: f64| best.is_none_or(|(least, _)| cost < least);
            if !is_better(distance) || !placed.is_free(clear, others) {
                continue;
            }
            let crossings = placed.crossings(clear, others);
            let cost = distance + CROSSING * crossings;
            if is_better(cost) && (label.needed || crossings == 0.0) {
                best = Some((cost, placed));
            }
        }
    }
    best.map(|(_, placed)| placed)
}

/// Returns the eight places beside a point, the preferred one first.
fn beside((x, y): Place, (width, height): (f64, f64)) -> [Rect; 8] {
    let right = x + GAP;
    let left = x - GAP - width;
    let (middle, above, below) = (y - height / 2.0, y - height - 2.0, y + 2.0);
    let centre = x - width / 2.0;
    [
        (right, middle),
        (right, above),
        (right, below),
        (left, middle),
        (left, above),
        (left, below),
        (centre, y - GAP - height),
        (centre, y + GAP),
    ]
    .map(|(left, top)| Rect { left, top, right: left + width, bottom: top + height })
}

/// Returns places on a grid over the whole picture.
fn anywhere(bounds: Rect, (width, height): (f64, f64)) -> impl Iterator<Item = Rect> {
    let steps = |from: f64, to: f64, step: f64| {
        (0..).map(move |i| from + f64::from(i) * step).take_while(move |at| *at <= to)
    };
    steps(bounds.top, bounds.bottom - height, GRID.1).flat_map(move |top| {
        steps(bounds.left, bounds.right - width, GRID.0).map(move |left| Rect {
            left,
            top,
            right: left + width,
            bottom: top + height,
        })
    })
}

impl PlacedLabel {
    fn of(anchor: Place, rect: Rect) -> Self {
        let mut placed = Self { anchor, rect, leader: None };
        if placed.distance() > NEAR {
            placed.leader = Some([anchor, rect.closest(anchor)]);
        }
        placed
    }

    fn distance(&self) -> f64 {
        let (x, y) = self.rect.closest(self.anchor);
        (x - self.anchor.0).hypot(y - self.anchor.1)
    }

    fn is_free(&self, clear: &Clear, others: &[Self]) -> bool {
        clear.bounds.contains(self.rect)
            && !clear.taken.iter().any(|taken| taken.overlaps(self.rect))
            && !others.iter().any(|other| other.rect.overlaps(self.rect))
    }

    /// Returns how many lines the label crosses, and how many labels its own line crosses.
    fn crossings(&self, clear: &Clear, others: &[Self]) -> f64 {
        let leaders = others.iter().filter_map(|other| other.leader);
        let lines = clear.lines.iter().copied().chain(leaders);
        let under = lines.filter(|line| self.rect.is_crossed_by(*line)).count();
        let crossed = self.leader.map_or(0, |leader| {
            others.iter().filter(|other| other.rect.is_crossed_by(leader)).count()
        });
        (under + crossed) as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Rect = Rect { left: 50.0, top: 20.0, right: 350.0, bottom: 300.0 };

    #[track_caller]
    fn check(anchors: &[Place], lines: &[[Place; 2]], expected: &[Option<Place>]) {
        let labels = anchors.iter().map(|anchor| Label {
            text: "0.95".into(),
            anchors: vec![*anchor],
            needed: false,
        });
        let taken = anchors.iter().map(|anchor| Rect::around(*anchor, 4.0)).collect();
        let clear = Clear { bounds: BOUNDS, taken, lines: lines.to_vec() };
        let placed = place(&labels.collect::<Vec<_>>(), &clear);
        let corner = |placed: &Option<PlacedLabel>| placed.map(|at| (at.rect.left, at.rect.top));
        assert_eq!(placed.iter().map(corner).collect::<Vec<_>>(), expected);
    }

    /// "0.95" is 29.6 units wide and 14 high.
    #[test]
    fn a_label_takes_the_closest_free_place_beside_its_point() {
        check(&[(100.0, 100.0)], &[], &[Some((107.0, 93.0))]);
        // The right edge of the picture.
        check(&[(340.0, 100.0)], &[], &[Some((303.4, 93.0))]);
        // A second point to the right, and a line through the point.
        check(&[(100.0, 100.0), (112.0, 93.0)], &[], &[Some((63.4, 93.0)), Some((119.0, 86.0))]);
        check(&[(100.0, 100.0)], &[[(60.0, 100.0), (300.0, 100.0)]], &[Some((85.2, 79.0))]);
        // A label that has no room is left out.
        let around = [(80.0, 87.0), (120.0, 93.0), (80.0, 107.0), (120.0, 107.0)];
        let mut all = vec![(100.0, 100.0)];
        all.extend(around);
        let taken = all.iter().map(|at| Rect::around(*at, 4.0)).collect();
        let label = Label { text: "0.95".into(), anchors: vec![all[0]], needed: false };
        let lines = vec![[(60.0, 80.0), (300.0, 80.0)], [(60.0, 120.0), (300.0, 120.0)]];
        let clear = Clear { bounds: BOUNDS, taken, lines };
        assert_eq!(place(std::slice::from_ref(&label), &clear), [None]);
        let needed = Label { needed: true, ..label };
        assert!(place(&[needed], &clear)[0].is_some());
    }

    prop_compose! {
        fn any_place()(x in BOUNDS.left..BOUNDS.right, y in BOUNDS.top..BOUNDS.bottom) -> Place {
            (x, y)
        }
    }

    fn any_label() -> impl Strategy<Value = Label> {
        let anchors = prop::collection::vec(any_place(), 1..3);
        ("[a-z:+0-9]{1,16}", anchors, any::<bool>()).prop_map(|(text, anchors, needed)| Label {
            text,
            anchors,
            needed,
        })
    }

    proptest! {
        #[test]
        fn labels_overlap_nothing_and_needed_labels_are_drawn(
            labels in prop::collection::vec(any_label(), 1..16),
            lines in prop::collection::vec((any_place(), any_place()), 0..4),
        ) {
            let points = labels.iter().flat_map(|label| &label.anchors);
            let taken: Vec<Rect> = points.map(|at| Rect::around(*at, 4.0)).collect();
            let lines = lines.iter().map(|(from, to)| [*from, *to]).collect();
            let clear = Clear { bounds: BOUNDS, taken, lines };
            let placed = place(&labels, &clear);
            let drawn: Vec<Rect> = placed.iter().flatten().map(|label| label.rect).collect();
            for (at, rect) in drawn.iter().enumerate() {
                prop_assert!(BOUNDS.contains(*rect));
                prop_assert!(drawn[..at].iter().all(|other| !other.overlaps(*rect)));
                prop_assert!(clear.taken.iter().all(|point| !point.overlaps(*rect)));
            }
            for (label, placed) in labels.iter().zip(&placed) {
                prop_assert!(placed.is_some() || !label.needed, "{label:?}");
            }
            prop_assert_eq!(placed, place(&labels, &clear));
        }
    }
}
