// Universal checkpoints that are written: what is read from them again. That DeepSpeed goes on from
// them is tried where it is at hand (tests/golden/deepspeed/load_universal.py).
#include "train/convert/universal.h"

#include <filesystem>

#include "checkpoint/deepspeed/folder.h"
#include "checkpoint/deepspeed/optimizer_states.h"
#include "checkpoint/own_checkpoint.h"
#include "core/status/error.h"
#include "core/torch/torch_writer.h"
#include "core/values/index.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/golden.h"
#include "train/convert/convert.h"

namespace ds {
namespace {

namespace fs = std::filesystem;
using deepspeed::DeepSpeedFolder;

std::string fixture(const std::string& name) {
  return testing::source_directory() + "/tests/golden/deepspeed/" + name;
}

Conversion to_universal(const std::string& from, const std::string& to) {
  return {.source = from,
          .destination = to,
          .config = fixture("zero2_fp32"),
          .target = ConversionTarget::kUniversal};
}

std::vector<std::byte> elements(const DeepSpeedFolder& folder, const std::string& name,
                                const std::string& slot) {
  const deepspeed::SavedTensor& tensor = folder.tensor(name, slot);
  std::vector<std::byte> bytes(to_size(tensor.numel() * tensor.dtype.size));
  deepspeed::read(tensor, 0, bytes);
  return bytes;
}

// What stage 3 takes from there; stages 1 and 2 take it from a list beside it.
std::optional<double> rate_in(const std::string& path) {
  const TorchFile file = TorchFile::open(path);
  const deepspeed::SavedFields root(file);
  return deepspeed::rate_of(root.fields("optimizer_state_dict"));
}

}  // namespace

TEST_CASE("a universal checkpoint has weights, moments and steps of what it was made of",
          "[train]") {
  RealFileSystem files;
  const testing::TemporaryDirectory place;
  const std::string out = place.path() / "out";
  for (const std::string name : {"zero2_fp32", "zero3_fp32", "zero3_bf16"}) {
    CAPTURE(name);
    const Converted done = convert(files, to_universal(fixture(name), out));
    CHECK(done.step == 3);
    REQUIRE(done.notes.size() == 1);
    const DeepSpeedFolder from = DeepSpeedFolder::open(files, fixture(name));
    const DeepSpeedFolder made = DeepSpeedFolder::open(files, out);
    CHECK(made.slots() == from.slots());
    CHECK(made.progress().steps == 3);
    CHECK(made.progress().samples == from.progress().samples);
    CHECK(made.progress().scheduler_steps == 3);
    CHECK(made.progress().updates == 3);
    CHECK(made.progress().rate == from.progress().rate);
    CHECK(rate_in(out + "/global_step3/zero/optimizer_state.pt") == from.progress().rate);
    // A linear warm-up from 0.001 to 0.01 in 6 steps, of which 3 are made.
    CHECK(from.progress().rate == Approx(0.001 + 0.009 * 2 / 6));
    for (const std::string slot : {"fp32", "exp_avg", "exp_avg_sq"}) {
      for (const auto& [parameter, tensor] : made.tensors(slot)) {
        CAPTURE(parameter, slot);
        CHECK(tensor.shape == from.tensor(parameter, slot).shape);
        CHECK(elements(made, parameter, slot) == elements(from, parameter, slot));
      }
    }
    CHECK(made.tensors("exp_avg").size() == static_cast<size_t>(done.tensors));
    files.remove_tree(out);
  }
}

TEST_CASE("a universal checkpoint has the updates and the schedule that its source says",
          "[train]") {
  // One whose optimizer was begun anew behind three steps, and whose scheduler stands elsewhere.
  RealFileSystem files;
  const testing::TemporaryDirectory place;
  const std::string first = place.path() / "first", out = place.path() / "out";
  convert(files, to_universal(fixture("zero2_fp32"), first));
  const std::string tag = first + "/global_step3";
  for (const DirectoryEntry& entry : files.list(tag + "/zero")) {
    if (entry.kind != DirectoryEntry::Kind::kDirectory) continue;
    const std::string step = tag + "/zero/" + entry.name + "/step.pt";
    const float updates = 1;
    files.remove(step);
    write_torch_file(files, step, TorchItem::Elements{},
                     [&](size_t) { return std::as_bytes(std::span(&updates, 1)); });
  }
  convert(files, to_universal(first, out));
  const DeepSpeedFolder made = DeepSpeedFolder::open(files, out);
  CHECK(made.progress().updates == 1);
  CHECK(made.progress().steps == 3);
  CHECK(made.progress().scheduler_steps == 3);
}

TEST_CASE("a parameter that is not trained has its weight alone, as ds_to_universal leaves it",
          "[train]") {
  RealFileSystem files;
  for (const char* name : {"zero2_frozen", "zero3_frozen"}) {
    CAPTURE(name);
    const testing::TemporaryDirectory place;
    const std::string out = place.path() / "out";
    Conversion what = to_universal(fixture(name), out);
    what.config = fixture("zero2_frozen");
    const Converted done = convert(files, what);
    CHECK(std::ranges::any_of(done.notes, [](const std::string& note) {
      return note.find("model.embed_tokens.weight, model.norm.weight") != std::string::npos;
    }));
    const DeepSpeedFolder from = DeepSpeedFolder::open(files, fixture(name));
    const DeepSpeedFolder made = DeepSpeedFolder::open(files, out);
    CHECK_FALSE(files.exists(out + "/global_step3/zero/model.norm.weight/exp_avg.pt"));
    for (const char* slot : {deepspeed::kWeightSlot, "exp_avg", "exp_avg_sq"}) {
      CHECK(made.tensors(slot).size() == from.tensors(slot).size());
      for (const auto& [parameter, tensor] : from.tensors(slot)) {
        CAPTURE(slot, parameter);
        CHECK(elements(made, parameter, slot) == elements(from, parameter, slot));
      }
    }
  }
}

TEST_CASE("a universal checkpoint of fp16 comes with a note of where its loss scale stands",
          "[train]") {
  RealFileSystem files;
  const testing::TemporaryDirectory place;
  const Converted done = convert(files, to_universal(fixture("zero2_fp16"), place.path() / "out"));
  CHECK(std::ranges::any_of(done.notes, [](const std::string& note) {
    return note.find("stands at 65536") != std::string::npos &&
           note.find("\"initial_scale_power\": 16") != std::string::npos;
  }));
}

TEST_CASE("what no optimizer of DeepSpeed could go on from is refused, and leaves nothing",
          "[train]") {
  RealFileSystem files;
  const testing::TemporaryDirectory place;
  const std::string out = place.path() / "out";
  Conversion weights = to_universal(place.path() / "hf", out);
  convert(files, {.source = fixture("zero2_fp32"), .destination = weights.source});
  CHECK_THROWS_WITH(convert(files, weights), Catch::Contains("has weights and no moments"));
  Conversion half = to_universal(fixture("zero2_fp32"), out);
  half.dtype = DType::kBF16;
  CHECK_THROWS_AS(convert(files, half), UsageError);
  ConversionSource source;
  source.about.from = "/a";
  source.slots = {"exp_avg", "momentum"};
  CHECK_THROWS_WITH(require_universal(source, DType::kF32), Catch::Contains("keeps momentum"));
  CHECK_FALSE(files.exists(out));
  CHECK_FALSE(files.exists(out + ".partial"));
}

TEST_CASE("a run, its tags and one of them are told from what others wrote", "[train]") {
  using Kind = OwnCheckpoint::Kind;
  RealFileSystem files;
  const testing::TemporaryDirectory place;
  const std::string run = place.path() / "run", tags = run + "/checkpoints";
  CHECK(own_checkpoint(files, run).kind == Kind::kNone);
  files.make_directories(tags + "/global_step2");
  CHECK(own_checkpoint(files, run).kind == Kind::kNone);
  files.write_text_atomically(tags + "/epoch", "1");
  files.write_text_atomically(tags + "/global_step2/manifest.json", "{}");
  CHECK(own_checkpoint(files, run).kind == Kind::kRun);
  CHECK(own_checkpoint(files, run).root == tags);
  CHECK(own_checkpoint(files, tags).kind == Kind::kRoot);
  CHECK(own_checkpoint(files, tags + "/global_step2").kind == Kind::kTag);
  CHECK(own_checkpoint(files, tags + "/global_step2").root == tags);
  CHECK(own_checkpoint(files, fixture("zero2_fp32")).kind == Kind::kNone);
  for (const std::string end : {"/", "//", "/."}) {
    CAPTURE(end);
    CHECK(own_checkpoint(files, run + end).root == tags);
    CHECK(own_checkpoint(files, tags + end).root == tags);
    const OwnCheckpoint named = own_checkpoint(files, fmt::format("{}/global_step2{}", tags, end));
    CHECK(named.root == tags);
    CHECK(named.path == tags + "/global_step2");
  }
  const fs::path before = fs::current_path();
  fs::current_path(tags);
  CHECK(own_checkpoint(files, "global_step2").root == tags);
  CHECK(own_checkpoint(files, ".").root == tags);
  CHECK(own_checkpoint(files, "..").root == tags);
  CHECK(own_checkpoint(files, "./global_step2/").path == tags + "/global_step2");
  fs::current_path(before);
}

}  // namespace ds
