#include "rankd/checkpointing.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "core/failpoint.h"
#include "model/hf_weights.h"
#include "rankd/agreement.h"
#include "rankd/engine_pieces.h"
#include "rankd/model_folder.h"

namespace ds {
namespace {

std::set<int> ranks_with_weights(Engine& engine, const CheckpointReader& reader) {
  std::set<int> out;
  for (const ParamSpec& spec : specs_of(engine.store())) {
    out.merge(reader.ranks_holding(spec.name + "/weight", Region::whole(spec.shape)));
  }
  return out;
}

}  // namespace

Checkpointing::Checkpointing(Engine& engine, FileSystem& files, const JobPlan& plan, int64_t keep,
                             MemoryTier* memory, TagAgreement tags, TagStorage storage)
    : engine_(engine),
      files_(files),
      plan_(plan),
      root_(plan.run_dir + "/checkpoints"),
      keep_(keep),
      memory_(memory),
      tags_(tags) {
  if (storage == TagStorage::kEachHost) {
    spread_.emplace(files_, root_, plan_, engine_.comm(), engine_.stream());
  } else {
    open_root();
  }
  DS_FAILPOINT("ckpt.epoch_agreed");
}

void Checkpointing::open_root() {
  std::string error;
  try {
    DS_FAILPOINT("ckpt.before_open_epoch");
    if (plan_.rank == 0) open_epoch(files_, root_, {plan_.epoch, plan_.claim});
    DS_FAILPOINT("ckpt.epoch_opened");
  } catch (const Error& failure) {
    error = failure.what();
  }
  agree_on_success("checkpoints", error, engine_.comm(), engine_.stream());
}

void Checkpointing::compare_tags(const std::string& tag) {
  if (tags_ == TagAgreement::kIgnore) return;
  using WireTag = std::array<char, kLongestTag + 1>;
  std::vector<WireTag> mine(1, WireTag{});
  std::copy_n(tag.begin(), std::min(tag.size(), kLongestTag), mine[0].begin());
  std::vector<std::string> all;
  for (const WireTag& of_rank : gather_values(mine, engine_.comm(), engine_.stream())) {
    all.emplace_back(of_rank.data());
  }
  const TagVerdict verdict = judge_tags(all, tags_);
  if (verdict.failed.empty() && verdict.warned.empty()) return;
  const size_t other = static_cast<size_t>(std::ranges::find_if(all, [&](const std::string& one) {
                                             return one != all[0];
                                           }) - all.begin());
  const std::string text = fmt::format("the ranks are about to save under different tags: rank 0 under "
                                       "{}, rank {} under {}", all[0], other, all[other]);
  if (!verdict.failed.empty()) throw ValidationError(text + " (checkpoint.tag_validation is Fail)");
  spdlog::warn("{}", text);
}

FileVote Checkpointing::write_own(const std::string& tag) {
  CheckpointWriter writer(
      files_, {.root = root_, .tag = tag, .epoch = plan_.epoch, .rank = plan_.rank},
      owned_bytes(engine_));
  put_pieces(engine_, plan_.rank, writer);
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
  }
  const std::vector<WireVote> all = exchange_votes(mine, engine_.comm(), engine_.stream());
  DS_FAILPOINT("ckpt.votes_exchanged");
  const ds::CommittedTag saved{tag, engine_.step(), plan_.epoch, begun_in_};
  if (spread_) {
    spread_->commit(saved, first_failure(all), votes_of(all, plan_.epoch), keep_);
  } else {
    commit_from_rank_0(tag, first_failure(all), votes_of(all, plan_.epoch));
  }
  DS_FAILPOINT("ckpt.agreed");
  last_ = saved;
  return {.tag = tag, .step = engine_.step()};
}

void Checkpointing::commit_from_rank_0(const std::string& tag, std::string error,
                                       std::vector<FileVote> votes) {
  if (plan_.rank == 0) {
    if (error.empty()) error = commit(tag, std::move(votes));
    DS_FAILPOINT("ckpt.before_agreement");
    if (!error.empty()) discard_tag(files_, root_, tag, plan_.epoch);
  }
  agree_on_success(fmt::format("checkpoint {} was not saved, the tags before it are untouched", tag),
                   error, engine_.comm(), engine_.stream());
}

// Rank 0. Returns what went wrong, or nothing.
std::string Checkpointing::commit(const std::string& tag, std::vector<FileVote> votes) {
  try {
    commit_tag(files_, {.root = root_,
                        .tag = tag,
                        .epoch = {plan_.epoch, plan_.claim},
                        .step = engine_.step(),
                        .votes = std::move(votes),
                        .begun_in = begun_in_});
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
    write_latest(files_, root_, tag);
    if (keep_ > 0) {
      retain_tags(files_, root_, static_cast<int>(keep_), {plan_.epoch, plan_.claim}, engine_.step());
    }
  } catch (const Error& failure) {
    spdlog::warn("checkpoint {} is committed, but: {}", tag, failure.what());
  }
}

// What may be loaded, newest first, and why others may not.
TagList Checkpointing::candidates() {
  TagList found;
  if (spread_) {  // also where nothing is to be loaded: what is whole is not to be cleared away
    const SpreadTags::Found& spread = spread_->find(plan_.oldest_tag_epoch);
    for (const WholeSet& set : spread.whole) {
      found.tags.push_back(tag_of(set.id));
    }
    broken_ = spread.broken;
    if (broken_) found.rejected.push_back(broken_->why);
  } else {
    found = resumable_tags(files_, root_, plan_.oldest_tag_epoch);
  }
  return found;
}

int64_t Checkpointing::load(const std::optional<std::string>& folder) {
  if (memory_ != nullptr) kept_ = memory_->find();
  const TagList found = candidates();
  if (plan_.resume != ResumeMode::kNever) {
    std::vector<std::string> refused = found.rejected;
    // The newest state, wherever it is; of one step, that in memory, which is nearer.
    auto set = kept_.whole.begin();
    for (const ds::CommittedTag& tag : found.tags) {
      for (; set != kept_.whole.end() && set->id.step >= tag.step; ++set) {
        if (take_set(*set)) return set->id.step;
      }
      if (take_tag(tag, refused)) return tag.step;
    }
    for (; set != kept_.whole.end(); ++set) {
      if (take_set(*set)) return set->id.step;
    }
    if (!refused.empty()) {
      throw ValidationError(fmt::format("{}: no tag can be loaded: {}", root_, refused.front()));
    }
    if (plan_.resume == ResumeMode::kRequired) {
      throw InputMissing(fmt::format("--resume required: {} holds no committed tag", root_));
    }
  }
  begin_anew(folder);
  return 0;
}

bool Checkpointing::take_set(const WholeSet& set) {
  try {
    memory_->restore(set);
  } catch (const IoError& failure) {
    spdlog::warn("{}; trying the state before it", failure.what());
    return false;
  }
  engine_.store().restore_from_owned();
  settle(&set, nullptr);
  origin_ = "memory";
  return true;
}

// IoError on every rank if one of them cannot.
void Checkpointing::read_tag(const ds::CommittedTag& tag) {
  const std::string label = "checkpoint " + tag.tag;
  if (spread_) {
    spread_->read(tag.tag, tag.epoch,
                  {.label = label,
                   .place = spread_->place_of(tag.tag),
                   .wanted = [&](const CheckpointReader& reader) { return ranks_needed(engine_, reader); },
                   .take = [&](CheckpointReader& reader) { restore_pieces(engine_, reader, tag.tag); }});
    return;
  }
  const std::string error = failure_of([&] {
    DS_FAILPOINT("load.before_restore");
    CheckpointReader reader = CheckpointReader::open(files_, root_, tag.tag);
    restore_pieces(engine_, reader, tag.tag);
    DS_FAILPOINT("load.restored");
  });
  agree_on_success(label, error, engine_.comm(), engine_.stream());
}

void Checkpointing::settle(const WholeSet* set, const ds::CommittedTag* tag) {
  begun_in_ = set != nullptr ? set->id.begun_in : tag != nullptr ? tag->begun_in : plan_.epoch;
  if (spread_) spread_->settle(tag);
  if (memory_ != nullptr) memory_->settle(set, begun_in_);
}

bool Checkpointing::take_tag(const ds::CommittedTag& tag, std::vector<std::string>& refused) {
  try {
    read_tag(tag);
  } catch (const IoError& failure) {
    refused.emplace_back(failure.what());
    spdlog::warn("{}; trying the tag before it", failure.what());
    return false;
  }
  DS_FAILPOINT("load.agreed");
  engine_.store().restore_from_owned();
  DS_FAILPOINT("load.published");
  settle(nullptr, &tag);
  last_ = tag;
  origin_ = tag.tag;
  return true;
}

void Checkpointing::begin_anew(const std::optional<std::string>& folder) {
  if (folder) {
    load_folder(*folder);
  } else {
    engine_.initialize();
  }
  if (!kept_.whole.empty()) {  // one that was refused may have left its marks
    clear_slots(engine_);
    engine_.store().restore_from_owned();
  }
  settle(nullptr, nullptr);
  origin_ = "the beginning";
}

std::optional<std::string> Checkpointing::resumed(int64_t step) const {
  const bool lost_tag = broken_ && broken_->step > step;
  if (!kept_.newest && !lost_tag) return std::nullopt;
  std::string line = fmt::format("resumed step={} from={}", step, origin_);
  if (kept_.newest.value_or(step) > step) {
    line += fmt::format(": step {} in memory is not whole", *kept_.newest);
  }
  if (lost_tag) line += ": " + broken_->why;
  return line;
}

void Checkpointing::load_folder(const std::string& folder) {
  const std::vector<ParamSpec> specs = specs_of(engine_.store());
  const HfWeights weights(files_, folder, specs);
  for (const OwnedSlice& slice : engine_.store().owned()) {
    for (const ShardField& field : slice.fields) {
      Tensor into = slice.master.narrow(field.offset, field.numel);
      weights.read(static_cast<size_t>(field.param), field.param_begin, into);
    }
  }
  engine_.store().restore_from_owned();
}

void Checkpointing::export_model(const std::string& folder, const std::string& tokenizer,
                                 const std::optional<std::string>& source) {
  const auto write = [&](CheckpointReader& reader) {
    DS_FAILPOINT("export.opened");
    write_model_folder(files_,
                       {.folder = folder,
                        .model = engine_.options().model,
                        .specs = specs_of(engine_.store()),
                        .source = source,
                        .tokenizer = tokenizer},
                       reader);
  };
  const std::string label = "export of " + folder;
  if (spread_) {
    spread_->read(last_.tag, last_.epoch,
                  {.label = label,
                   .place = spread_->place_of(last_.tag),
                   .wanted = [&](const CheckpointReader& reader) {
                     return plan_.rank == 0 ? ranks_with_weights(engine_, reader) : std::set<int>();
                   },
                   .take = [&](CheckpointReader& reader) {
                     if (plan_.rank == 0) write(reader);
                     DS_FAILPOINT("export.spread_written");
                   }});
    return;
  }
  const std::string error = failure_of([&] {
    if (plan_.rank != 0) return;
    CheckpointReader reader = CheckpointReader::open(files_, root_, last_.tag);
    write(reader);
  });
  DS_FAILPOINT("export.written");
  agree_on_success(label, error, engine_.comm(), engine_.stream());
}

}  // namespace ds
