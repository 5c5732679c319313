#include "launcher/decide/watch/link_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/values/index.h"

namespace ds {

void LinkWatch::reported(Time now, int rank, const std::vector<CutLink>& links) {
  std::map<std::pair<int, int>, Complaint> kept;
  for (const CutLink& link : links) {
    const std::pair key(rank, link.peer);
    const auto known = complaints_.find(key);
    kept[key] = {known == complaints_.end() ? now : known->second.since, link};
  }
  std::erase_if(complaints_, [&](const auto& entry) { return entry.first.first == rank; });
  complaints_.merge(kept);
}

void LinkWatch::forget() { complaints_.clear(); }

std::string LinkWatch::host_of(int rank) const {
  const auto at = to_size(rank);
  return at < hosts_.size() && !hosts_[at].empty() ? hosts_[at] : fmt::format("rank {}", rank);
}

int LinkWatch::first_rank_of(const std::string& host) const {
  return static_cast<int>(std::ranges::find(hosts_, host) - hosts_.begin());
}

std::map<LinkWatch::Ends, LinkWatch::Pair> LinkWatch::pairs() const {
  std::map<Ends, Pair> out;
  for (const auto& [key, complaint] : complaints_) {
    const auto [rank, peer] = key;
    std::string from = host_of(rank);
    std::string to = host_of(peer);
    const bool same_host = from == to;
    if (same_host) {
      from += fmt::format(" (rank {})", rank);
      to += fmt::format(" (rank {})", peer);
    }
    const auto place = [&](int r) { return std::pair(first_rank_of(host_of(r)), r); };
    const bool in_order = place(rank) < place(peer);
    Pair& pair = out[in_order ? Ends(from, to) : Ends(to, from)];
    if (!pair.first.at && !pair.second.at) pair.second_rank = in_order ? peer : rank;
    End& end = in_order ? pair.first : pair.second;
    end.at = std::min(end.at.value_or(complaint.since), complaint.since);
    end.heard = end.heard || complaint.link.heard;
    if (end.what.empty()) end.what = complaint.link.what;
  }
  return out;
}

Time LinkWatch::due_at(const Pair& pair) const {
  if (pair.first.at && pair.second.at) {
    return std::min(std::max(*pair.first.at, *pair.second.at) + options_.both,
                    std::min(*pair.first.at, *pair.second.at) + options_.one);
  }
  return pair.first.at.value_or(pair.second.at.value_or(Time::max())) + options_.one;
}

// The fewest hosts, as far as taking the worst one first finds them; of equals the later one, so
// that the first host stays.
std::vector<std::string> LinkWatch::cover(const std::map<Ends, Pair>& pairs) const {
  std::vector<Ends> left;
  for (const auto& [ends, pair] : pairs) left.push_back(ends);
  std::vector<std::string> out;
  while (!left.empty()) {
    std::map<std::string, int> links;
    for (const auto& [a, b] : left) {
      ++links[a];
      ++links[b];
    }
    const auto worst = std::ranges::max_element(links, [&](const auto& a, const auto& b) {
      return std::pair(a.second, first_rank_of(a.first)) <
             std::pair(b.second, first_rank_of(b.first));
    });
    out.push_back(worst->first);
    std::erase_if(left, [&](const Ends& ends) {
      return ends.first == out.back() || ends.second == out.back();
    });
  }
  return out;
}

std::string LinkWatch::sentence(const Ends& ends, const Pair& pair) {
  const auto& [a, b] = ends;
  if (pair.first.at && pair.second.at) {
    if (pair.first.heard && pair.second.heard) {
      return fmt::format(
          "what {} and {} send each other is lost although some packets arrive (a smaller MTU on "
          "the "
          "way does that)",
          a, b);
    }
    if (pair.first.heard) return fmt::format("{} cannot reach {}, the other way works", a, b);
    if (pair.second.heard) return fmt::format("{} cannot reach {}, the other way works", b, a);
    return fmt::format("{} and {} cannot reach each other", a, b);
  }
  const bool first = pair.first.at.has_value();
  const End& end = first ? pair.first : pair.second;
  const std::string& from = first ? a : b;
  const std::string& to = first ? b : a;
  if (end.heard) return fmt::format("{} cannot reach {}, the other way works", from, to);
  return fmt::format("{} gets no answer from {} ({})", from, to, end.what);
}

std::optional<LinkWatch::Verdict> LinkWatch::suspected() const {
  const std::map<Ends, Pair> found = pairs();
  if (found.empty()) return std::nullopt;
  constexpr size_t kNamed = 3;
  Verdict out;
  out.rank = found.begin()->second.second_rank;
  size_t said = 0;
  for (const auto& [ends, pair] : found) {
    if (said++ == kNamed) break;
    out.words += fmt::format("{}{}", out.words.empty() ? "" : "; ", sentence(ends, pair));
  }
  if (found.size() > kNamed) out.words += fmt::format("; and {} more", found.size() - kNamed);
  if (hosts_.empty()) return out;
  for (std::string& host : cover(found)) {
    if (std::ranges::find(hosts_, host) != hosts_.end()) out.without.push_back(std::move(host));
  }
  if (!out.without.empty()) out.rank = first_rank_of(out.without.front());
  return out;
}

std::optional<LinkWatch::Verdict> LinkWatch::verdict(Time now) const {
  return now >= next_deadline() ? suspected() : std::nullopt;
}

Time LinkWatch::next_deadline() const {
  Time next = Time::max();
  for (const auto& [ends, pair] : pairs()) next = std::min(next, due_at(pair));
  return next;
}

}  // namespace ds
