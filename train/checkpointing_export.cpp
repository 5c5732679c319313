// The model of a run, from the tag that is kept always or the last one.
#include <algorithm>
#include <set>

#include "checkpoint/reader.h"
#include "core/status/failpoint.h"
#include "train/checkpointing.h"
#include "train/engine_pieces.h"

namespace ds {
namespace {

std::set<int> ranks_with_weights(Engine& engine, const CheckpointReader& reader) {
  std::set<int> out;
  for (const ParamSpec& spec : engine.store().state().model_specs()) {
    if (is_elsewhere(spec, reader)) continue;
    out.merge(reader.ranks_holding(spec.name + "/weight", Region::whole(spec.logical_shape())));
  }
  return out;
}

}  // namespace

bool Checkpointing::keep_always(const std::string& tag) {
  always_.reset();
  const auto found = std::ranges::find(found_.tags, tag, &ds::CommittedTag::tag);
  if (tag == last_.tag) {
    always_ = last_;
  } else if (found != found_.tags.end()) {
    always_ = *found;
  }
  return always_.has_value();
}

// What an old tag has is read through before anything is written of it. Where each host keeps its
// own files, who reads them verifies them.
std::string Checkpointing::drop_damaged() {
  if (!always_ || distributed_) return "";
  const std::string own = failure_of([&] {
    if (plan_.rank == 0) CheckpointReader::open(files_, root_, always_->tag).verify();
  });
  const auto all = engine_.host().gather_lists(std::vector<char>(own.begin(), own.end()));
  std::string why(all[0].begin(), all[0].end());
  if (!why.empty()) always_.reset();
  return why;
}

std::string Checkpointing::export_model(const std::string& folder, const FolderFrame& frame) {
  std::string damaged = drop_damaged();
  const ds::CommittedTag& exported = always_ ? *always_ : last_;
  refusal_.clear();
  const auto write = [&](CheckpointReader& reader) {
    DS_FAILPOINT("export.opened");
    try {
      write_model_folder(
          files_,
          {.folder = folder, .frame = frame, .specs = engine_.store().state().model_specs()},
          reader);
    } catch (const ValidationError& refused) {  // no matter of the disk, and nothing to try again
      refusal_ = refused.what();
    }
  };
  const std::string label = "export of " + folder;
  if (distributed_) {
    distributed_->read(exported.tag, exported.epoch,
                       {.label = label,
                        .place = distributed_->place_of(exported.tag),
                        .wanted =
                            [&](const CheckpointReader& reader) {
                              return plan_.rank == 0 ? ranks_with_weights(engine_, reader)
                                                     : std::set<int>();
                            },
                        .take =
                            [&](CheckpointReader& reader) {
                              if (plan_.rank == 0) write(reader);
                              DS_FAILPOINT("export.spread_written");
                            }});
    throw_refusal();
    return damaged;
  }
  const std::string error = failure_of([&] {
    if (plan_.rank != 0) return;
    CheckpointReader reader = CheckpointReader::open(files_, root_, exported.tag);
    write(reader);
  });
  DS_FAILPOINT("export.written");
  engine_.host().agree_on_success(label, error);
  throw_refusal();
  return damaged;
}

}  // namespace ds
