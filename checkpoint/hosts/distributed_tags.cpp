#include "checkpoint/hosts/distributed_tags.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "checkpoint/file_words.h"
#include "checkpoint/hosts/agreement.h"
#include "checkpoint/tag.h"
#include "core/status/failpoint.h"
#include "core/tasks/host.h"
#include "core/values/index.h"

namespace ds {
namespace {

// Which disk each rank writes to, from 0 without gaps. Hosts may well share a file system: each
// leaves a mark on its own, and looks for those of the others.
std::vector<int> disks_of_ranks(FileSystem& files, const std::string& root,
                                const DistributedTags::Place& place, HostExchange& exchange) {
  const std::vector<int> host_of =
      hosts_of_ranks(exchange.gather(std::vector<int>{place.local_rank}));
  if (host_of.back() == 0) return host_of;
  const int own = nth(host_of, place.rank);
  const bool leads = place.local_rank == 0;
  const auto mark_of = [&](int host) {
    return temporary_directory(root, fmt::format("host-{}-{}", host, place.shm_name), place.epoch);
  };
  const std::string error = failure_of([&] {
    if (!leads) return;
    files.make_directories(root);
    if (!files.exists(mark_of(own))) files.make_directory(mark_of(own));
    DS_FAILPOINT("local.marked");
  });
  exchange.agree_on_success("checkpoints", error);
  int disk = 0;
  while (leads && disk < own && !files.exists(mark_of(disk))) ++disk;
  const std::vector<int> seen = exchange.gather(std::vector<int>{disk});
  if (leads) {
    const std::string left = failure_of([&] { files.remove(mark_of(own)); });
    if (!left.empty()) spdlog::warn("{}", left);
  }
  std::vector<int> disk_of_host;
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    if (host_of[rank] == std::ssize(disk_of_host)) disk_of_host.push_back(seen[rank]);
  }
  const std::set<int> disks(disk_of_host.begin(), disk_of_host.end());
  std::vector<int> out;
  for (const int host : host_of) {
    out.push_back(
        static_cast<int>(std::distance(disks.begin(), disks.find(nth(disk_of_host, host)))));
  }
  return out;
}

}  // namespace

DistributedTags::DistributedTags(FileSystem& files, std::string root, const Place& place,
                                 HostExchange& exchange)
    : files_(files),
      root_(std::move(root)),
      epoch_(place.epoch, place.claim),
      exchange_(exchange),
      local_(files_, root_),
      sets_(local_, disks_of_ranks(files_, root_, place, exchange), exchange) {
  const std::vector<int>& disk_of = sets_.host_of();
  for (size_t rank = 0; rank < disk_of.size(); ++rank) {
    if (disk_of[rank] == sets_.host()) here_.push_back(static_cast<int>(rank));
  }
  for (const WireText& name :
       exchange_.gather(std::vector<WireText>{to_wire_text(own_host_name())})) {
    names_.emplace_back(name.data());
  }
  agree("checkpoints", if_host_leader([&] {
          DS_FAILPOINT("local.before_open_epoch");
          open_epoch(files_, root_, epoch_, Unfinished::kKeep);
        }));
}

std::string DistributedTags::if_host_leader(const std::function<void()>& part) const {
  return sets_.is_host_leader() ? failure_of(part) : "";
}

void DistributedTags::agree(const std::string& what, const std::string& error) {
  exchange_.agree_on_success(what, error);
}

std::vector<HostFile> DistributedTags::look() {
  agree(root_, failure_of([&] {
          DS_FAILPOINT("local.before_look");
          local_.look();
        }));
  return sets_.gather();
}

Resumable DistributedTags::find(const ResumeWish& wish) {
  const std::vector<HostFile> kept = look();
  all_whole_ = whole_sets(kept);
  TagList all = list(kept);
  whole_ = all.tags;
  return resumable_of(std::move(all), wish);
}

TagList DistributedTags::list(const std::vector<HostFile>& kept) {
  TagList out;
  add_tags(all_whole_, out);
  std::vector<WireTrace> mine;
  for (const RejectedTag& trace : traces_here(kept)) mine.push_back(to_wire(trace));
  for (const std::vector<WireTrace>& of_rank : exchange_.gather_lists(mine)) {
    for (const WireTrace& wire : of_rank) {
      const RejectedTag trace = from_wire(wire);
      const bool told =
          std::ranges::find(out.rejected, trace.why, &RejectedTag::why) != out.rejected.end();
      if (!told) out.rejected.push_back(trace);
    }
  }
  std::vector<WireText> latest(1);
  if (exchange_.rank() == 0) latest[0] = to_wire_text(latest_name(files_, root_).value_or(""));
  out.latest = exchange_.gather(latest)[0].data();
  return out;
}

// Adds the tags of whole sets. Any host that has their manifests tells what these say; rank 0 tells
// whether `latest` has named them, because its `latest` counts.
void DistributedTags::add_tags(const std::vector<WholeSet>& whole, TagList& list) {
  std::vector<WireTag> mine;
  if (sets_.is_host_leader()) {
    for (const LocalTags::Tag& tag : local_.tags()) mine.push_back(to_wire(local_.committed(tag)));
  }
  const std::vector<std::vector<WireTag>> all = exchange_.gather_lists(mine);
  for (const WholeSet& set : whole) {
    CommittedTag& tag = list.tags.emplace_back(CommittedTag{.tag = default_tag(set.id.step),
                                                            .step = set.id.step,
                                                            .epoch = set.id.epoch,
                                                            .begun_in = set.id.begun_in});
    for (size_t rank = 0; rank < all.size(); ++rank) {
      for (const WireTag& wire : all[rank]) {
        const CommittedTag here = from_wire(wire);
        if (age_of(here) != age_of(tag)) continue;
        tag.after = here.after;
        tag.skipped = here.skipped;
        tag.named = tag.named || (rank == 0 && here.named);
      }
    }
  }
}

// What this host has named and all hosts together do not have whole, and what else it has that is
// no tag. Of a tag that is not whole, only who has the manifest can say all.
std::vector<RejectedTag> DistributedTags::traces_here(const std::vector<HostFile>& kept) const {
  constexpr size_t kMost = 8;
  if (!sets_.is_host_leader()) return {};
  std::vector<RejectedTag> out;
  for (const LocalTags::Tag& tag : local_.tags()) {
    const bool counts = tag.stage == LocalTags::Tag::Stage::kPublished;
    const bool whole = std::ranges::find(all_whole_, tag.set, &WholeSet::id) != all_whole_.end();
    if (counts && !whole) {
      out.push_back({tag.manifest.tag, tag.set.step, why_broken(tag.set, kept), tag.set.begun_in,
                     tag.manifest.after});
    }
  }
  out.insert(out.end(), local_.rejected().begin(), local_.rejected().end());
  std::ranges::stable_sort(out, std::ranges::greater(),
                           [](const RejectedTag& trace) { return trace.step.value_or(0); });
  out.resize(std::min(out.size(), kMost));
  return out;
}

std::string DistributedTags::why_broken(const SetIdentity& set,
                                        const std::vector<HostFile>& kept) const {
  const auto tag = std::ranges::find(local_.tags(), set, &LocalTags::Tag::set);
  if (tag == local_.tags().end()) return "";
  std::vector<int> missing;
  for (int rank = 0; rank < set.files; ++rank) {
    const bool there = std::ranges::any_of(
        kept, [&](const HostFile& one) { return one.file.set == set && one.file.rank == rank; });
    if (!there) missing.push_back(rank);
  }
  return fmt::format(
      "{} of generation {} is not whole: {} {} on none of the hosts that answered: {}",
      tag->manifest.tag, set.epoch, files_in_words(tag->manifest, missing),
      missing.size() == 1 ? "is" : "are", hosts_in_words());
}

// "node-1 (ranks 0 to 1), node-2 (rank 2)"
std::string DistributedTags::hosts_in_words() const {
  constexpr int kMostNamed = 8;
  const std::vector<int>& disk_of = sets_.host_of();
  std::string out;
  int named = 0;
  for (size_t rank = 0; rank < disk_of.size(); ++rank) {
    if (rank > 0 && disk_of[rank] == disk_of[rank - 1]) continue;
    if (++named > kMostNamed) continue;
    size_t last = rank;
    while (last + 1 < disk_of.size() && disk_of[last + 1] == disk_of[rank]) ++last;
    if (!out.empty()) out += ", ";
    out += last == rank ? fmt::format("{} (rank {})", names_[rank], rank)
                        : fmt::format("{} (ranks {} to {})", names_[rank], rank, last);
  }
  if (named > kMostNamed) out += fmt::format(" and {} more", named - kMostNamed);
  return out;
}

void DistributedTags::read(const std::string& tag, int64_t epoch, const DistributedSets::Use& use) {
  const std::vector<WholeSet> whole = whole_sets(look());
  const auto set = std::ranges::find_if(whole, [&](const WholeSet& one) {
    return default_tag(one.id.step) == tag && one.id.epoch == epoch;
  });
  if (set == whole.end()) {
    throw IoError(fmt::format("{}: the hosts do not hold all files of {} any more", root_, tag));
  }
  sets_.load(*set, use);
}

void DistributedTags::settle(const CommittedTag* from) {
  const auto set = std::ranges::find_if(all_whole_, [&](const WholeSet& one) {
    return from != nullptr && one.id.step == from->step && one.id.epoch == from->epoch;
  });
  const WholeSet* loaded = set == all_whole_.end() ? nullptr : &*set;
  agree("checkpoints", if_host_leader([&] { local_.settle(all_whole_, loaded, epoch_.number); }));
}

void DistributedTags::go_back(const std::string& tag, const std::string& newest) {
  agree("checkpoints", if_host_leader([&] {
          if (files_.exists(place_of(tag)) && files_.exists(place_of(newest)))
            ds::go_back(files_, root_, tag, newest, epoch_);
        }));
}

CommitRequest DistributedTags::request_of(const CommittedTag& tag,
                                          std::vector<FileVote> votes) const {
  CommitRequest request{.root = root_,
                        .tag = tag.tag,
                        .epoch = epoch_,
                        .step = tag.step,
                        .votes = std::move(votes),
                        .begun_in = tag.begun_in,
                        .after = tag.after,
                        .skipped = tag.skipped};
  if (here_.size() < names_.size()) {
    request.hosts = names_;
    request.here = here_;
  }
  return request;
}

void DistributedTags::commit_everywhere(const CommitRequest& request) {
  const std::string what =
      fmt::format("checkpoint {} was not saved, the tags before it are untouched", request.tag);
  agree(what, if_host_leader([&] {
          prepare_tag(files_, request);
          DS_FAILPOINT("local.prepared");
        }));
  agree(what, if_host_leader([&] {
          DS_FAILPOINT("local.all_prepared");
          publish_tag(files_, request.root, request.tag, epoch_);
          DS_FAILPOINT("local.published");
        }));
}

void DistributedTags::commit(const CommittedTag& tag, const std::string& failure,
                             std::vector<FileVote> votes, const TagsToKeep& keep) {
  if (!failure.empty()) {
    withdraw(tag.tag);
    throw IoError(fmt::format("checkpoint {} was not saved, the tags before it are untouched: {}",
                              tag.tag, failure));
  }
  try {
    commit_everywhere(request_of(tag, std::move(votes)));
  } catch (const IoError&) {
    withdraw(tag.tag);
    throw;
  }
  note_whole(tag);
  tidy(tag, keep);
}

// All hosts are back at what was before the first of them forgets the new tag: a tag that has a
// name anywhere is whole at any time.
void DistributedTags::withdraw(const std::string& tag) {
  const std::string error = if_host_leader([&] {
    unpublish_tag(files_, root_, tag, epoch_);
    DS_FAILPOINT("local.unpublished");
  });
  try {
    agree("checkpoint " + tag, error);
  } catch (const IoError& kept) {
    spdlog::warn("{}; what was written of it stays", kept.what());
    return;
  }
  const std::string left =
      if_host_leader([&] { discard_prepared(files_, root_, tag, epoch_.number); });
  if (!left.empty()) spdlog::warn("{}", left);
}

void DistributedTags::note_whole(const CommittedTag& tag) {
  std::erase_if(whole_, [&](const CommittedTag& one) { return one.step == tag.step; });
  whole_.push_back(tag);
  std::ranges::sort(whole_, std::ranges::greater(), age_of<CommittedTag>);
}

// The tag is committed by now, so a failure here is worth a warning and nothing more. Nothing is
// deleted anywhere before every host has read its part of the new tag through.
void DistributedTags::tidy(const CommittedTag& tag, const TagsToKeep& keep) {
  const auto warn = [&](const std::string& error) {
    if (!error.empty()) spdlog::warn("checkpoint {} is committed, but: {}", tag.tag, error);
  };
  warn(if_host_leader([&] {
    DS_FAILPOINT("local.all_published");
    drop_replaced(files_, root_, tag.tag, epoch_.number);
    write_latest(files_, root_, tag.tag, epoch_);
  }));
  if (keep.newest <= 0) return;
  const std::vector<std::string> rest = surplus_of(whole_, keep, tag.step);
  if (rest.empty()) return;
  std::vector<std::string> wanted;
  for (const CommittedTag& one : whole_) {
    if (std::ranges::find(rest, one.tag) == rest.end()) wanted.push_back(one.tag);
  }
  try {
    agree("deleting old checkpoints", if_host_leader([&] { local_.verify(tag.tag, here_); }));
  } catch (const IoError& unread) {
    warn(unread.what());
    return;
  }
  warn(if_host_leader([&] {
    DS_FAILPOINT("local.verified");
    local_.remove_others(wanted, tag.step, epoch_);
  }));
  std::erase_if(whole_,
                [&](const CommittedTag& one) { return std::ranges::count(rest, one.tag) > 0; });
}

}  // namespace ds
