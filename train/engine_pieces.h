// The engine's state as pieces of a checkpoint: what this rank owns, into a writer and out of a
// reader. The same for a tag on disk and a set in memory.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "core/device/host_copy.h"
#include "train/engine.h"

namespace ds {

int64_t owned_bytes(Engine& engine);
// Whose slots checkpoints have: the optimizer's family, and that of how its updates are made.
std::string state_family(const EngineOptions& options, std::string_view family);
// What rank 0 knows of the run beside the engine's state; empty: nothing.
struct RunNotes {
  std::string steps;  // that the launcher may not have heard of (train/measure/step_note.h)
  std::string best;   // of its evaluations (train/watch/best_evaluation.h)
};
struct RunStates {
  std::string facts;  // by which a later run is compared (train/settings/resume_facts.h)
  RunNotes notes;
};
inline constexpr const char* kBestState = "best_evaluation";
inline constexpr const char* kNoteState = "note";
inline constexpr const char* kLossScaleState = "loss_scale";  // train/step/scaling_state.h
inline constexpr const char* kMasterSlot =
    "weight";  // the fp32 master, among the optimizer's slots
RunNotes notes_of(const CheckpointReader& reader);
// Rank 0 adds the states that the whole engine has once, and those of the run. BadPiece if a number
// is not finite, or a weight would not be in the type that the model computes with, so that nobody
// could go on from that.
void put_pieces(Engine& engine, int rank, const RunStates& states, CheckpointWriter& writer);
// Why nothing is saved after that step: `bad` names rank, tensor, number; `rest` says what stays.
std::string bad_state_text(int64_t step, const std::string& bad, const std::string& rest);
// Each region that this rank saves, or restores: the tensor's name, the region, and where its
// elements live.
void for_each_piece(Engine& engine, Visit what,
                    const std::function<void(const std::string& name, const ParamSpec& spec,
                                             const Region& region, Tensor& data)>& take);
// Whether a checkpoint is without what is frozen of these, which is all of the model; and whether
// one that is has this of it elsewhere: in the folder that training began with.
bool lacks_frozen(const CheckpointReader& reader, std::span<const ParamSpec> specs);
bool is_elsewhere(const ParamSpec& spec, const CheckpointReader& reader);
// The ranks that saved what this rank owns.
std::set<int> ranks_needed(Engine& engine, const CheckpointReader& reader);
// Why the checkpoint is of another model or optimizer, in words that begin with `label`; empty: it
// is not. The same on all ranks.
std::string why_another(Engine& engine, const CheckpointReader& reader, const std::string& label);
// Fills what this rank owns. ValidationError if something is missing or corrupt. Returns what could
// not be gone on with, in words; empty: nothing.
std::string restore_pieces(Engine& engine, CheckpointReader& reader, const std::string& label);

// Fills one tensor of a part that this rank owns from where parameters are whole. `read` is given a
// parameter's place in the model, the first element that is wanted of it, and values on the CPU.
using ReadElements = std::function<void(size_t index, int64_t begin, Tensor& values)>;
enum class WhichModel : uint8_t { kTrained, kSecond };  // whose parameters are filled
void fill_fields(Engine& engine, const OwnedPart& part, const Tensor& tensor, HostCopy& through,
                 const ReadElements& read, WhichModel which = WhichModel::kTrained);

// The optimizer state that this rank owns becomes that of an optimizer that has made no step.
void clear_slots(Engine& engine);

}  // namespace ds
