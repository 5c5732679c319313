#include "rankd/checkpointing.h"

#include <spdlog/spdlog.h>

#include <array>
#include <cstring>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "core/failpoint.h"
#include "model/hf_weights.h"
#include "rankd/model_folder.h"

namespace ds {
namespace {

// A vote as it travels between ranks: fixed size, so that one all-gather carries all of them.
struct WireVote {
  std::array<char, 64> name{};
  std::array<char, 40> digest{};
  int64_t bytes = -1;  // -1: this rank could not write
  std::array<char, 400> error{};
};

template <size_t N>
void put_text(std::array<char, N>& into, const std::string& text) {
  std::memcpy(into.data(), text.data(), std::min(text.size(), N - 1));
}

std::vector<WireVote> exchange(const WireVote& mine, Communicator& comm, Stream& stream) {
  std::vector<WireVote> all(static_cast<size_t>(comm.size()));
  constexpr auto kBytes = static_cast<int64_t>(sizeof(WireVote));
  WireVote copy = mine;
  Tensor gathered = Tensor::borrow(all.data(), {kBytes * comm.size()}, DType::kU8);
  comm.all_gather(Tensor::borrow(&copy, {kBytes}, DType::kU8), gathered, stream);
  return all;
}

std::string first_failure(const std::vector<WireVote>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].bytes < 0) return fmt::format("rank {}: {}", rank, all[rank].error.data());
  }
  return "";
}

std::vector<FileVote> votes_of(const std::vector<WireVote>& all, int64_t epoch) {
  std::vector<FileVote> votes;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    votes.push_back({.name = all[rank].name.data(),
                     .rank = static_cast<int>(rank),
                     .epoch = epoch,
                     .bytes = all[rank].bytes,
                     .digest = all[rank].digest.data()});
  }
  return votes;
}

// Throws the first rank's error on every rank, so that all of them take the same way.
void agree(const std::string& what, const std::string& error, Communicator& comm, Stream& stream) {
  WireVote mine;
  mine.bytes = error.empty() ? 0 : -1;
  put_text(mine.error, error);
  const std::string failure = first_failure(exchange(mine, comm, stream));
  if (!failure.empty()) throw IoError(fmt::format("{}: {}", what, failure));
}

constexpr const char* kOptimizerState = "optimizer";

// Slots of one name mean different things to different optimizers: Lion's exp_avg is not Adam's.
void require_same_optimizer(const CheckpointReader& reader, std::string_view family,
                            const std::string& tag) {
  if (!reader.has_state(kOptimizerState)) return;  // written before this was recorded: by Adam
  const std::string& saved = reader.state(kOptimizerState);
  if (saved == fmt::format("\"{}\"", family)) return;
  throw ValidationError(fmt::format(
      "{} was saved with the optimizer {}, this run has \"{}\"; keep the optimizer, or start from "
      "the weights alone: a new run directory and the exported folder as model.folder",
      tag, saved, family));
}

std::string piece_name(const ParamSpec& spec, const std::string& slot) {
  return spec.name + "/" + slot;
}

int64_t owned_bytes(const std::vector<OwnedSlice>& slices) {
  int64_t bytes = 0;
  for (const OwnedSlice& slice : slices) {
    for (const ShardField& field : slice.fields) {
      bytes += field.numel * 4 * static_cast<int64_t>(1 + slice.slots.size());
    }
  }
  return bytes;
}

}  // namespace

Checkpointing::Checkpointing(Engine& engine, FileSystem& files, const JobPlan& plan, int64_t keep)
    : engine_(engine),
      files_(files),
      plan_(plan),
      root_(plan.run_dir + "/checkpoints"),
      keep_(keep) {
  std::string error;
  try {
    DS_FAILPOINT("ckpt.before_open_epoch");
    if (plan_.rank == 0) open_epoch(files_, root_, plan_.epoch);
    DS_FAILPOINT("ckpt.epoch_opened");
  } catch (const Error& failure) {
    error = failure.what();
  }
  agree("checkpoints", error, engine_.comm(), engine_.stream());
  DS_FAILPOINT("ckpt.epoch_agreed");
}

FileVote Checkpointing::write_pieces(const std::string& tag) {
  const std::vector<OwnedSlice> slices = engine_.store().owned();
  const std::vector<std::string> slots = engine_.optimizer().slot_names();
  CheckpointWriter writer(
      files_, {.root = root_, .tag = tag, .epoch = plan_.epoch, .rank = plan_.rank},
      owned_bytes(slices));
  for (const OwnedSlice& slice : slices) {
    for (const ShardField& field : slice.fields) {
      const ParamSpec& spec = engine_.store().spec(field.param);
      const Region region = Region::flat(field.param_begin, field.param_begin + field.numel);
      const auto put = [&](const std::string& slot, const Tensor& tensor) {
        writer.put({.name = piece_name(spec, slot),
                    .global_shape = spec.shape,
                    .region = region,
                    .data = tensor.narrow(field.offset, field.numel)});
      };
      put("weight", slice.master);
      DS_FAILPOINT("ckpt.piece_put");
      for (size_t i = 0; i < slots.size(); ++i) put(slots[i], slice.slots[i]);
    }
  }
  if (plan_.rank == 0) {
    writer.put_state("engine", fmt::format(R"({{"step": {}}})", engine_.step()));
    writer.put_state(kOptimizerState, fmt::format("\"{}\"", engine_.optimizer().family()));
  }
  DS_FAILPOINT("ckpt.before_finish");
  return writer.finish();
}

SavedTag Checkpointing::save() {
  const std::string tag = fmt::format("global_step{}", engine_.step());
  if (tag == last_tag_) return {.tag = tag, .step = engine_.step()};
  WireVote mine;
  try {
    const FileVote vote = write_pieces(tag);
    DS_FAILPOINT("ckpt.pieces_written");
    put_text(mine.name, vote.name);
    put_text(mine.digest, vote.digest);
    mine.bytes = vote.bytes;
  } catch (const IoError& failure) {
    put_text(mine.error, failure.what());
  }
  const std::vector<WireVote> all = exchange(mine, engine_.comm(), engine_.stream());
  DS_FAILPOINT("ckpt.votes_exchanged");
  std::string error = first_failure(all);
  if (plan_.rank == 0) {
    if (error.empty()) error = commit(tag, votes_of(all, plan_.epoch));
    DS_FAILPOINT("ckpt.before_agreement");
    if (!error.empty()) discard_tag(files_, root_, tag, plan_.epoch);
  }
  agree(fmt::format("checkpoint {} was not saved, the tags before it are untouched", tag), error,
        engine_.comm(), engine_.stream());
  DS_FAILPOINT("ckpt.agreed");
  last_tag_ = tag;
  return {.tag = tag, .step = engine_.step()};
}

// Rank 0. Returns what went wrong, or nothing.
std::string Checkpointing::commit(const std::string& tag, std::vector<FileVote> votes) {
  try {
    commit_tag(files_, {.root = root_,
                        .tag = tag,
                        .epoch = plan_.epoch,
                        .step = engine_.step(),
                        .votes = std::move(votes)});
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
    if (keep_ > 0) retain_tags(files_, root_, static_cast<int>(keep_), plan_.epoch);
  } catch (const Error& failure) {
    spdlog::warn("checkpoint {} is committed, but: {}", tag, failure.what());
  }
}

int64_t Checkpointing::load(const std::optional<std::string>& folder) {
  if (plan_.resume != ResumeMode::kNever) {
    TagList found = list_tags(files_, root_);
    std::erase_if(found.tags, [&](const ds::CommittedTag& tag) {
      return tag.epoch < plan_.oldest_tag_epoch;
    });
    std::vector<std::string> refused = found.rejected;
    for (const ds::CommittedTag& tag : found.tags) {
      std::string error;
      try {
        DS_FAILPOINT("load.before_restore");
        restore(tag.tag);
        DS_FAILPOINT("load.restored");
      } catch (const Error& failure) {
        error = failure.what();
      }
      try {
        agree("checkpoint " + tag.tag, error, engine_.comm(), engine_.stream());
      } catch (const IoError& failure) {
        refused.emplace_back(failure.what());
        spdlog::warn("{}; trying the tag before it", failure.what());
        continue;
      }
      DS_FAILPOINT("load.agreed");
      engine_.store().restore_from_owned();
      DS_FAILPOINT("load.published");
      last_tag_ = tag.tag;
      return tag.step;
    }
    if (!refused.empty()) {
      throw ValidationError(fmt::format("{}: no tag can be loaded: {}", root_, refused.front()));
    }
    if (plan_.resume == ResumeMode::kRequired) {
      throw InputMissing(fmt::format("--resume required: {} holds no committed tag", root_));
    }
  }
  if (folder) {
    load_folder(*folder);
  } else {
    engine_.initialize();
  }
  return 0;
}

void Checkpointing::restore(const std::string& tag) {
  CheckpointReader reader = CheckpointReader::open(files_, root_, tag);
  const std::vector<std::string> slots = engine_.optimizer().slot_names();
  require_same_optimizer(reader, engine_.optimizer().family(), tag);
  for (const OwnedSlice& slice : engine_.store().owned()) {
    for (const ShardField& field : slice.fields) {
      const ParamSpec& spec = engine_.store().spec(field.param);
      const Region region = Region::flat(field.param_begin, field.param_begin + field.numel);
      const auto get = [&](const std::string& slot, const Tensor& tensor) {
        const std::string name = piece_name(spec, slot);
        const auto info = reader.info(name);
        if (info.shape != spec.shape) {
          throw ValidationError(fmt::format("{} has shape {} in {}, the model has {}", name,
                                            info.shape.to_string(), tag, spec.shape.to_string()));
        }
        Tensor into = tensor.narrow(field.offset, field.numel);
        reader.get(name, region, into);
      };
      get("weight", slice.master);
      DS_FAILPOINT("load.piece_read");
      for (size_t i = 0; i < slots.size(); ++i) get(slots[i], slice.slots[i]);
    }
  }
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
  std::string error;
  if (plan_.rank == 0) {
    try {
      CheckpointReader reader = CheckpointReader::open(files_, root_, last_tag_);
      DS_FAILPOINT("export.opened");
      write_model_folder(files_,
                         {.folder = folder,
                          .model = engine_.options().model,
                          .specs = specs_of(engine_.store()),
                          .source = source,
                          .tokenizer = tokenizer},
                         reader);
    } catch (const Error& failure) {
      error = failure.what();
    }
  }
  DS_FAILPOINT("export.written");
  agree("export of " + folder, error, engine_.comm(), engine_.stream());
}

}  // namespace ds
