#include "checkpoint/lineage.h"

#include <algorithm>

namespace ds {
namespace {

bool is_ancestor(std::span<const Ancestor> after, int64_t begun_in, int64_t step) {
  return std::ranges::any_of(
      after, [&](const Ancestor& one) { return one.begun_in == begun_in && step <= one.step; });
}

// The line that began last, of tags and traces that this launch has made; nothing: none.
std::optional<Line> last_line(const TagList& list, int64_t oldest_epoch) {
  std::optional<Line> out;
  const auto take = [&](int64_t begun_in, const std::vector<Ancestor>& after) {
    if (!out || begun_in > out->begun_in) out = Line{.begun_in = begun_in, .after = after};
  };
  for (const CommittedTag& tag : list.tags) {
    if (tag.epoch >= oldest_epoch) take(tag.begun_in, tag.after);
  }
  for (const RejectedTag& trace : list.rejected) {
    if (trace.begun_in && *trace.begun_in >= oldest_epoch) take(*trace.begun_in, trace.after);
  }
  return out;
}

const CommittedTag* find(const std::vector<CommittedTag>& tags, const std::string& name) {
  const auto found = std::ranges::find(tags, name, &CommittedTag::tag);
  return found == tags.end() ? nullptr : &*found;
}

// The tag that somebody has chosen, and how; null: nobody has.
const CommittedTag* chosen_of(const TagList& list, const ResumeWish& wish, ChosenBy& by) {
  if (!wish.tag.empty()) {
    by = ChosenBy::kWish;
    return find(list.tags, wish.tag);
  }
  if (wish.oldest_epoch > 0 || list.tags.empty()) return nullptr;
  const CommittedTag& newest = list.tags.front();
  const CommittedTag* const named = find(list.tags, list.latest);
  // If `latest` never named the newest, it was left behind when that was committed.
  if (named == nullptr || named == &newest || !newest.named) return nullptr;
  by = ChosenBy::kLatest;
  return named;
}

// What was there before a training was begun anew, or went back, on purpose is nobody's loss.
bool is_of_line(const RejectedTag& trace, const Resumable& out, const ResumeWish& wish) {
  if (trace.begun_in) return out.line.has(*trace.begun_in, trace.step.value_or(0));
  if (wish.oldest_epoch > 0) return false;
  return !out.line.until || (trace.step && *trace.step <= *out.line.until);
}

// If there is nothing to go on from, this says why the tag that was asked for is none.
Resumable only_wish(TagList list, const ResumeWish& wish, Resumable out) {
  std::erase_if(list.rejected, [&](const RejectedTag& trace) { return trace.name != wish.tag; });
  out.rejected = std::move(list.rejected);
  return out;
}

}  // namespace

bool Line::has(int64_t begun, int64_t step) const {
  if (begun == begun_in) return !until || step <= *until;
  return is_ancestor(after, begun, step);
}

Line line_up_to(const CommittedTag& tag) {
  return {.begun_in = tag.begun_in, .after = tag.after, .until = tag.step};
}

std::vector<Ancestor> ancestors_after(const CommittedTag& tag,
                                      std::span<const CommittedTag> there) {
  std::vector<Ancestor> out = tag.after;
  std::erase_if(out, [&](const Ancestor& one) {
    return std::ranges::none_of(there, [&](const CommittedTag& other) {
      return other.begun_in == one.begun_in && other.step <= one.step;
    });
  });
  out.push_back({.begun_in = tag.begun_in, .step = tag.step});
  if (out.size() > kMostAncestors) out.erase(out.begin(), out.end() - kMostAncestors);
  return out;
}

bool Resumable::branches_at(const CommittedTag& tag) const {
  if (tag.begun_in < last_begun) return true;
  return chosen_by != ChosenBy::kAge && tag.tag != newest;
}

bool Resumable::has_state(int64_t begun_in, int64_t step) const {
  return begun_in > last_begun || line.has(begun_in, step);
}

Resumable resumable_of(TagList list, const ResumeWish& wish) {
  Resumable out;
  if (!list.tags.empty()) out.newest = list.tags.front().tag;
  out.latest = list.latest;
  const std::optional<Line> last = last_line(list, 0);
  if (last) out.last_begun = last->begun_in;
  // What this launch has made comes before what it was told to begin from.
  const std::optional<Line> own =
      wish.oldest_epoch > 0 ? last_line(list, wish.oldest_epoch) : std::nullopt;
  const CommittedTag* const chosen = own ? nullptr : chosen_of(list, wish, out.chosen_by);
  const bool by_age = wish.oldest_epoch == 0 && out.chosen_by == ChosenBy::kAge;
  if (by_age && !list.latest.empty() && list.latest != out.newest &&
      find(list.tags, list.latest) != nullptr) {
    out.overlooked = list.latest;
  }
  if (own) {
    out.line = *own;
  } else if (chosen != nullptr) {
    out.line = line_up_to(*chosen);
  } else if (wish.oldest_epoch == 0 && wish.tag.empty()) {
    out.line = last.value_or(Line{});
  } else {
    return only_wish(std::move(list), wish, std::move(out));
  }
  std::erase_if(list.tags, [&](const CommittedTag& tag) {
    const bool is_old = wish.tag.empty() && tag.epoch < wish.oldest_epoch;
    return is_old || !out.line.has(tag.begun_in, tag.step);
  });
  std::erase_if(list.rejected,
                [&](const RejectedTag& trace) { return !is_of_line(trace, out, wish); });
  out.tags = std::move(list.tags);
  out.rejected = std::move(list.rejected);
  return out;
}

std::vector<std::string> surplus_of(const std::vector<CommittedTag>& tags, const TagsToKeep& keep,
                                    int64_t step) {
  const auto newest =
      std::ranges::find_if(tags, [&](const CommittedTag& tag) { return tag.step <= step; });
  if (newest == tags.end()) return {};
  const Line line = line_up_to(*newest);
  std::vector<const CommittedTag*> order, behind;
  for (const CommittedTag& tag : tags) {
    if (tag.step > step) continue;
    (line.has(tag.begun_in, tag.step) ? order : behind).push_back(&tag);
  }
  order.insert(order.end(), behind.begin(), behind.end());
  std::vector<std::string> out;
  int64_t kept = 0;
  for (const CommittedTag* tag : order) {
    const bool stays = tag->skipped ? tag == order.front() : kept < keep.newest;
    if (!stays && tag->tag != keep.always) out.push_back(tag->tag);
    if (stays && !tag->skipped) ++kept;
  }
  return out;
}

}  // namespace ds
