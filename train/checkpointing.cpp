#include "train/checkpointing.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <set>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/hosts/agreement.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"
#include "train/beginning.h"
#include "train/engine_pieces.h"
#include "train/teacher.h"

namespace ds {
namespace {

std::string facts_now(const std::optional<RunFacts>& facts) {
  if (!facts) return "";
  RunFacts now = *facts;
  now.saved_at = std::time(nullptr);
  return to_text(now);
}

// Without spaces, as a word of a line: "2026-11-22T10:31:05".
std::string time_in_words(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm local{};
  if (localtime_r(&time, &local) == nullptr) return "";
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &local)};
}

}  // namespace

Checkpointing::Checkpointing(Engine& engine, FileSystem& files, const JobPlan& plan,
                             const Options& options)
    : engine_(engine),
      files_(files),
      plan_(plan),
      root_(plan.run_dir + "/checkpoints"),
      options_(options),
      memory_(options.memory) {
  if (options.storage == TagStorage::kEachHost) {
    distributed_.emplace(files_, root_,
                         DistributedTags::Place{.rank = plan.rank,
                                                .local_rank = plan.local_rank,
                                                .epoch = plan.epoch,
                                                .claim = plan.claim,
                                                .shm_name = plan.shm_name},
                         engine_.host());
  } else {
    open_root();
  }
  DS_FAILPOINT("ckpt.epoch_agreed");
}

void Checkpointing::open_root() {
  const std::string error = failure_of([&] {
    DS_FAILPOINT("ckpt.before_open_epoch");
    if (plan_.rank == 0) open_epoch(files_, root_, {plan_.epoch, plan_.claim});
    DS_FAILPOINT("ckpt.epoch_opened");
  });
  engine_.host().agree_on_success("checkpoints", error);
}

void Checkpointing::compare_tags(const std::string& tag) {
  if (options_.tags == TagAgreement::kIgnore) return;
  using WireName = std::array<char, kLongestTag + 1>;
  std::vector<WireName> mine(1, WireName{});
  put_text(mine[0], tag);
  std::vector<std::string> all;
  for (const WireName& of_rank : engine_.host().gather(mine)) {
    all.emplace_back(of_rank.data());
  }
  const TagVerdict verdict = judge_tags(all, options_.tags);
  if (verdict.failed.empty() && verdict.warned.empty()) return;
  const size_t other =
      to_size(std::ranges::find_if(all, [&](const std::string& one) { return one != all[0]; }) -
              all.begin());
  const std::string text = fmt::format(
      "the ranks are about to save under different tags: rank 0 under "
      "{}, rank {} under {}",
      all[0], other, all[other]);
  if (!verdict.failed.empty()) throw ValidationError(text + " (checkpoint.tag_validation is Fail)");
  spdlog::warn("{}", text);
}

FileVote Checkpointing::write_own(const std::string& tag) {
  CheckpointWriter writer(files_,
                          {.root = root_, .tag = tag, .epoch = plan_.epoch, .rank = plan_.rank},
                          owned_bytes(engine_));
  put_pieces(engine_, plan_.rank, {.facts = facts_now(options_.facts), .notes = notes_}, writer);
  DS_FAILPOINT("ckpt.before_finish");
  return writer.finish();
}

SavedTag Checkpointing::save() {
  const std::string tag = default_tag(engine_.step());
  compare_tags(tag);
  if (tag == last_.tag) return {.tag = tag, .step = engine_.step()};
  WireVote mine;
  try {
    mine.vote(write_own(tag));
    DS_FAILPOINT("ckpt.pieces_written");
  } catch (const IoError& failure) {
    mine.fail(failure.what());
  } catch (const BadPiece& bad) {
    mine.refuse(bad.what());
  }
  const std::vector<WireVote> all = exchange_votes(mine, engine_.host());
  DS_FAILPOINT("ckpt.votes_exchanged");
  if (const std::string bad = first_refusal(all); !bad.empty()) {
    withdraw(tag);
    throw ValidationError(bad_state_text(
        engine_.step(), bad, fmt::format("{} was not saved, the tags before it stay", tag)));
  }
  const ds::CommittedTag saved{.tag = tag,
                               .step = engine_.step(),
                               .epoch = plan_.epoch,
                               .begun_in = begun_in_,
                               .after = after_,
                               .skipped = engine_.skipped_last()};
  if (distributed_) {
    distributed_->commit(saved, first_failure(all), votes_of(all, plan_.epoch), tags_to_keep());
  } else {
    commit_from_rank_0(tag, first_failure(all), votes_of(all, plan_.epoch));
  }
  DS_FAILPOINT("ckpt.agreed");
  last_ = saved;
  return {.tag = tag, .step = engine_.step()};
}

void Checkpointing::withdraw(const std::string& tag) {
  if (distributed_) return distributed_->withdraw(tag);
  if (plan_.rank != 0) return;
  const std::string left = failure_of([&] { discard_tag(files_, root_, tag, plan_.epoch); });
  if (!left.empty()) spdlog::warn("{}", left);
}

void Checkpointing::commit_from_rank_0(const std::string& tag, std::string error,
                                       std::vector<FileVote> votes) {
  if (plan_.rank == 0) {
    if (error.empty()) error = commit(tag, std::move(votes));
    DS_FAILPOINT("ckpt.before_agreement");
    if (!error.empty()) discard_tag(files_, root_, tag, plan_.epoch);
  }
  engine_.host().agree_on_success(
      fmt::format("checkpoint {} was not saved, the tags before it are untouched", tag), error);
}

// Rank 0. Returns what went wrong, or nothing.
std::string Checkpointing::commit(const std::string& tag, std::vector<FileVote> votes) {
  try {
    commit_tag(files_, {.root = root_,
                        .tag = tag,
                        .epoch = {plan_.epoch, plan_.claim},
                        .step = engine_.step(),
                        .votes = std::move(votes),
                        .begun_in = begun_in_,
                        .after = after_,
                        .skipped = engine_.skipped_last()});
  } catch (const Error& failure) {
    return failure.what();
  }
  DS_FAILPOINT("ckpt.committed");
  tidy_after_commit(tag);
  DS_FAILPOINT("ckpt.tidied");
  return "";
}

// The tag is committed by now: `latest` is a hint and old tags only take room, so a failure here is
// worth a warning and nothing more.
void Checkpointing::tidy_after_commit(const std::string& tag) {
  try {
    write_latest(files_, root_, tag, {plan_.epoch, plan_.claim});
    if (options_.keep > 0) {
      retain_tags(files_, root_, tags_to_keep(), {plan_.epoch, plan_.claim}, engine_.step());
    }
  } catch (const Error& failure) {
    spdlog::warn("checkpoint {} is committed, but: {}", tag, failure.what());
  }
}

// What may be loaded, newest first, and what else looks like a checkpoint.
void Checkpointing::candidates() {
  const ResumeWish wish{.oldest_epoch = plan_.oldest_tag_epoch, .tag = plan_.resume_tag};
  if (distributed_) {  // also where nothing is to be loaded: what is whole is not to be cleared
                       // away
    found_ = distributed_->find(wish);
    return;
  }
  TagList mine;
  const std::string error = failure_of([&] {
    if (plan_.rank == 0) mine = list_tags(files_, root_);
  });
  engine_.host().agree_on_success("checkpoints", error);
  found_ = from_rank_0(mine, wish);
}

// One list for all: ranks that each looked for themselves might see different things on a network
// file system.
Resumable Checkpointing::from_rank_0(const TagList& mine, const ResumeWish& wish) {
  std::vector<WireTag> wire;
  for (const ds::CommittedTag& tag : mine.tags) wire.push_back(to_wire(tag));
  TagList out;
  const auto tags = engine_.host().gather_lists(std::move(wire));
  for (const WireTag& tag : tags[0]) out.tags.push_back(from_wire(tag));
  std::vector<WireTrace> traces;
  for (const RejectedTag& trace : mine.rejected) traces.push_back(to_wire(trace));
  const auto all_traces = engine_.host().gather_lists(std::move(traces));
  for (const WireTrace& trace : all_traces[0]) {
    out.rejected.push_back(from_wire(trace));
  }
  out.latest = engine_.host().gather(std::vector{to_wire_text(mine.latest)})[0].data();
  return resumable_of(std::move(out), wish);
}

int64_t Checkpointing::load(const std::optional<std::string>& folder) {
  folder_ = folder;
  load_teacher(engine_, files_);  // no state has it; what follows publishes it
  if (memory_ != nullptr) kept_ = memory_->find();
  candidates();
  if (plan_.resume != ResumeMode::kNever) {
    require_wish();
    std::vector<RejectedTag> refused = found_.rejected;
    if (const std::optional<int64_t> step = take_newest(refused)) {
      report_origin(*step, refused);
      return *step;
    }
    if (!refused.empty() || plan_.committed_step > 0 || !plan_.progress.empty())
      refuse_to_begin(refused);
    if (plan_.resume == ResumeMode::kRequired) {
      throw InputMissing(fmt::format("--resume required: {} holds no committed tag", root_));
    }
  }
  const int64_t step = begin_anew(folder);
  if (kept_.newest) {
    notices_.push_back(fmt::format("resumed step={} from={}: step {} in memory is not whole", step,
                                   origin_, *kept_.newest));
  }
  return step;
}

// The newest state, wherever it is; of one step, that in memory, which is nearer.
std::optional<int64_t> Checkpointing::take_newest(std::vector<RejectedTag>& refused) {
  auto set = kept_.whole.begin();
  const auto take_sets = [&](int64_t down_to) -> std::optional<int64_t> {
    for (; set != kept_.whole.end() && set->id.step >= down_to; ++set) {
      if (!found_.has_state(set->id.begun_in, set->id.step)) continue;  // of a line left behind
      require_newest(set->id.step, refused);
      if (take_set(*set)) return set->id.step;
    }
    return std::nullopt;
  };
  for (const ds::CommittedTag& tag : found_.tags) {
    if (const std::optional<int64_t> step = take_sets(tag.step)) return step;
    require_newest(tag.step, refused);
    if (take_tag(tag, refused)) return tag.step;
    if (found_.chosen_by == ChosenBy::kWish) {
      throw ValidationError(fmt::format(
          "--resume {}: it cannot be loaded: {}; name another checkpoint, or leave --resume out",
          plan_.resume_tag, refused.back().why));
    }
  }
  return take_sets(0);
}

// A checkpoint that somebody has asked for by its name is that one or none.
void Checkpointing::require_wish() const {
  if (found_.chosen_by != ChosenBy::kWish || !found_.tags.empty()) return;
  const std::string why = found_.rejected.empty()
                              ? fmt::format("{} has no checkpoint of that name", root_)
                              : found_.rejected.front().why;
  throw InputMissing(
      fmt::format("--resume {}: {}{}; name one that is there", plan_.resume_tag, why,
                  found_.newest.empty() ? "" : fmt::format(" (the newest is {})", found_.newest)));
}

// Going back is for those who did not ask for the newest.
void Checkpointing::require_newest(int64_t step, const std::vector<RejectedTag>& refused) const {
  if (plan_.resume != ResumeMode::kRequired || found_.chosen_by != ChosenBy::kAge) return;
  const auto lost = std::ranges::find_if(
      refused, [&](const RejectedTag& trace) { return may_be_newer(trace, step); });
  const bool known_better = plan_.committed_step > step;
  if (lost == refused.end() && !known_better) return;
  throw ValidationError(fmt::format(
      "--resume required: the newest whole state is of step {}, but {}; to go back to it, use "
      "--resume auto",
      step,
      lost != refused.end() && !lost->why.empty()
          ? lost->why
          : fmt::format("step {} was committed ({})", plan_.committed_step, plan_.committed_by)));
}

void Checkpointing::report_origin(int64_t step, const std::vector<RejectedTag>& refused) {
  std::string line = fmt::format("resumed step={} from={}", step, origin_);
  if (!saved_at_.empty()) line += " saved=" + saved_at_;
  line += origin_note(step);
  const bool meant = found_.chosen_by != ChosenBy::kAge;
  if (!meant && kept_.newest.value_or(step) > step) {
    line += fmt::format(": step {} in memory is not whole", *kept_.newest);
  }
  int64_t newest = meant ? 0 : plan_.committed_step;
  for (const RejectedTag& trace : refused) {
    notices_.push_back(fmt::format("warning: {}", trace.why));
    if (may_be_newer(trace, step)) newest = std::max(newest, trace.step.value_or(step));
  }
  if (newest > step) {
    line += fmt::format(": going back from step {} to step {}", newest, step);
    if (!meant && plan_.committed_step > step) {
      line += fmt::format("; step {} was committed ({})", plan_.committed_step, plan_.committed_by);
    }
  }
  notices_.push_back(line);
}

// Going back, where somebody wanted it.
std::string Checkpointing::origin_note(int64_t step) const {
  const bool by_latest = found_.chosen_by == ChosenBy::kLatest;
  if (found_.chosen_by == ChosenBy::kAge || found_.tags.empty()) {
    return found_.overlooked.empty()
               ? ""
               : fmt::format("; checkpoints/latest still names {} (to go back there: --resume {})",
                             found_.overlooked, found_.overlooked);
  }
  if (origin_ != found_.tags.front().tag || origin_ == found_.newest) return "";
  return fmt::format(
      ": {} it, and what was made after step {} is left behind; {} stays until newer "
      "checkpoints take its place",
      by_latest ? "checkpoints/latest names" : "--resume names", step, found_.newest);
}

void Checkpointing::refuse_to_begin(const std::vector<RejectedTag>& refused) const {
  constexpr size_t kMostNamed = 8;
  std::string why;
  for (size_t i = 0; i < std::min(refused.size(), kMostNamed); ++i) why += "\n  " + refused[i].why;
  if (refused.size() > kMostNamed)
    why += fmt::format("\n  and {} more", refused.size() - kMostNamed);
  if (plan_.committed_step > 0) {
    why += fmt::format("\n  step {} was committed ({})", plan_.committed_step, plan_.committed_by);
  }
  if (!plan_.progress.empty()) why += "\n  " + plan_.progress;
  throw ValidationError(fmt::format(
      "{}: there is no checkpoint that can be loaded, but there has been progress:{}\n"
      "bring them back (a disk or folder that is missing?), or begin anew with --resume never",
      root_, why));
}

namespace {

// All ranks together. What could not be restored because of what a rank swaps to is as good as it
// was: in place of an older state, and of the steps since, that rank needs another disk.
bool has_swap_failed(Engine& engine) {
  const std::vector<char> failed =
      engine.host().gather(std::vector<char>{engine.store().state().has_swap_failed() ? '1' : '0'});
  return std::ranges::find(failed, '1') != failed.end();
}

}  // namespace

// What a checkpoint is without is in the folder that training began with.
void Checkpointing::fill_frozen(const CheckpointReader& reader, const std::string& label) {
  if (!lacks_frozen(reader, engine_.store().state().model_specs())) return;
  if (!folder_) {
    refusal_ =
        fmt::format("{} has what trains alone; give the model's folder as model.folder", label);
    return;
  }
  load_frozen(engine_, files_, *folder_);
}

bool Checkpointing::take_set(const WholeSet& set) {
  try {
    if (engine_.options().excludes_frozen && folder_) load_frozen(engine_, files_, *folder_);
    memory_->restore(set);
  } catch (const IoError& failure) {
    if (has_swap_failed(engine_)) throw;
    spdlog::warn("{}; trying the state before it", failure.what());
    return false;
  }
  engine_.store().state().restore_from_owned();
  after_ = memory_->restored_after();
  settle(&set, nullptr);
  restored_ = memory_->restored_notes();
  note_lost(fmt::format("step {} in memory", set.id.step), memory_->lost());
  origin_ = "memory";
  return true;
}

// IoError on every rank if one of them cannot; ValidationError on every rank if it must not be
// loaded.
void Checkpointing::read_tag(const ds::CommittedTag& tag) {
  const std::string label = "checkpoint " + tag.tag;
  refusal_.clear();
  const auto take = [&](CheckpointReader& reader) {
    judge(reader, label);
    if (refusal_.empty()) fill_frozen(reader, label);
    if (refusal_.empty()) note_lost(label, restore_pieces(engine_, reader, tag.tag));
    restored_ = notes_of(reader);
  };
  if (distributed_) {
    distributed_->read(tag.tag, tag.epoch,
                       {.label = label,
                        .place = distributed_->place_of(tag.tag),
                        .wanted =
                            [&](const CheckpointReader& reader) {
                              return why_another(engine_, reader, label).empty()
                                         ? ranks_needed(engine_, reader)
                                         : std::set<int>();
                            },
                        .take = take});
  } else {
    const std::string error = failure_of([&] {
      DS_FAILPOINT("load.before_restore");
      CheckpointReader reader = CheckpointReader::open(files_, root_, tag.tag);
      take(reader);
      DS_FAILPOINT("load.restored");
    });
    engine_.host().agree_on_success(label, error);
  }
  throw_refusal();
}

void Checkpointing::note_lost(const std::string& label, const std::string& lost) {
  if (!lost.empty()) notices_.push_back(fmt::format("note: {}: {}", label, lost));
}

// All ranks together: rank 0's counts.
void Checkpointing::throw_refusal() const {
  const std::vector<char> mine(refusal_.begin(), refusal_.end());
  const std::vector<char> refusal = engine_.host().gather_lists(mine)[0];
  if (!refusal.empty()) throw ValidationError(std::string(refusal.begin(), refusal.end()));
}

// Whether a run may go on from it. All ranks see another model; what else has changed, rank 0
// knows.
void Checkpointing::judge(const CheckpointReader& reader, const std::string& label) {
  refusal_ = why_another(engine_, reader, label);
  saved_at_.clear();
  if (!refusal_.empty() || !options_.facts || !reader.has_state(kFactsState)) return;
  const RunFacts saved = parse_facts(reader.state(kFactsState));
  saved_at_ = time_in_words(saved.saved_at);
  const FactChanges changes = compare(saved, *options_.facts);
  if (!changes.model.empty()) {
    refusal_ =
        fmt::format("{} is of another model: {}; keep the model, or choose another --run-dir",
                    label, fmt::join(changes.model, "; "));
  } else if (!changes.exact.empty() && !plan_.accept_changes) {
    refusal_ = fmt::format(
        "{} was saved by a run with other settings: {}; training would not go on as if it had "
        "never stopped. Put them back, or go on all the same with --accept-changes",
        label, fmt::join(changes.exact, "; "));
  }
  if (!refusal_.empty()) return;
  for (const std::vector<std::string>& list : {changes.exact, changes.other}) {
    if (!list.empty())
      notices_.push_back(fmt::format("note: since {}: {}", label, fmt::join(list, "; ")));
  }
}

void Checkpointing::settle(const WholeSet* set, const ds::CommittedTag* tag) {
  begun_in_ = set != nullptr ? set->id.begun_in : tag != nullptr ? tag->begun_in : plan_.epoch;
  if (set == nullptr) after_ = tag != nullptr ? tag->after : std::vector<Ancestor>();
  if (tag != nullptr && found_.branches_at(*tag)) {
    begun_in_ = plan_.epoch;
    after_ = ancestors_after(*tag, found_.tags);
  }
  if (distributed_) distributed_->settle(tag);
  if (memory_ != nullptr) memory_->settle(set, begun_in_, after_);
  if (tag != nullptr) name_origin(*tag);
}

// Whoever comes later is to go back as well, also if this run ends before it has saved anything.
// Else it is only tidying up: after a commit whose process ended before `latest` was written.
void Checkpointing::name_origin(const ds::CommittedTag& tag) {
  const bool goes_back = found_.chosen_by == ChosenBy::kWish && tag.tag != found_.newest;
  const bool is_late = tag.tag == found_.newest && !(tag.named && found_.latest == tag.tag);
  if (!goes_back && !is_late) return;
  try {
    if (distributed_) {
      distributed_->go_back(tag.tag, found_.newest);
    } else {
      engine_.host().agree_on_success(
          "checkpoints", failure_of([&] {
            if (plan_.rank == 0)
              go_back(files_, root_, tag.tag, found_.newest, {plan_.epoch, plan_.claim});
          }));
    }
  } catch (const IoError& failure) {
    if (goes_back) throw;
    spdlog::warn("{}", failure.what());
  }
}

bool Checkpointing::take_tag(const ds::CommittedTag& tag, std::vector<RejectedTag>& refused) {
  try {
    read_tag(tag);
  } catch (const IoError& failure) {
    if (has_swap_failed(engine_)) throw;
    refused.push_back({tag.tag, tag.step, failure.what(), tag.begun_in});
    spdlog::warn("{}; trying the tag before it", failure.what());
    return false;
  }
  DS_FAILPOINT("load.agreed");
  engine_.store().state().restore_from_owned();
  DS_FAILPOINT("load.published");
  settle(nullptr, &tag);
  last_ = tag;
  origin_ = tag.tag;
  return true;
}

int64_t Checkpointing::begin_anew(const std::optional<std::string>& folder) {
  const Begun begun =
      begin_training(engine_, files_,
                     {.resume_from = options_.resume_from,
                      .folder = folder,
                      .config = options_.facts ? options_.facts->config : "",
                      .changes = plan_.accept_changes ? Changes::kAccepted : Changes::kRefused});
  // One that was refused may have left its marks.
  if (!kept_.whole.empty() && !options_.resume_from) {
    clear_slots(engine_);
    engine_.store().state().restore_from_owned();
  }
  notices_.insert(notices_.end(), begun.notices.begin(), begun.notices.end());
  settle(nullptr, nullptr);
  origin_ = begun.origin;
  return begun.step;
}

}  // namespace ds
