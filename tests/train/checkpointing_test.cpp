#include "train/checkpointing.h"

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/ranks.h"
#include "tests/train/runs/small_engine.h"
#include "train/workspace.h"

namespace ds {
namespace {

using namespace testing;

// What each rank's save ends with, where rank r has made `steps[r]` steps.
std::vector<std::string> save_at(const std::vector<int64_t>& steps, TagAgreement tags,
                                 FileSystem& files) {
  std::vector<std::string> ends(steps.size());
  test::run_ranks(static_cast<int>(steps.size()), [&](Communicator& comm) {
    const auto rank = static_cast<size_t>(comm.rank());
    const EngineOptions options = options_of({.ranks = comm.size()});
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), std::nullopt);
    engine.initialize();
    JobPlan plan;
    plan.rank = comm.rank();
    plan.world_size = comm.size();
    plan.run_dir = "/run";
    Checkpointing checkpoints(engine, files, plan, {.tags = tags});
    engine.restore_step(steps[rank]);
    try {
      ends[rank] = checkpoints.save().tag;
    } catch (const ValidationError& error) {
      ends[rank] = fmt::format("refused: {}", error.what());
    } catch (const IoError& error) {
      ends[rank] = "failed";
    }
  });
  return ends;
}

struct Beginning {
  std::string what;                  // "step 10", or why not
  std::vector<std::string> notices;  // of rank 0
  std::string note{};                // that came with the state, of rank 0
};

struct Launch {
  int64_t epoch = 1;
  ResumeMode resume = ResumeMode::kAuto;
  std::vector<int64_t> saves{};
  JobPlan plan{};  // what the launcher says besides
  std::optional<RunFacts> facts{};
  int64_t layers = 2;
  std::string note{};                    // to go with what is saved
  std::optional<int64_t> first_epoch{};  // of the launch; nothing: this one
};

// One epoch of two ranks, which saves at those steps: how it began.
Beginning begin(FileSystem& files, const Launch& launch) {
  Beginning out;
  test::run_ranks(2, [&](Communicator& comm) {
    EngineOptions options = options_of({.ranks = comm.size()});
    std::get<Gpt2Config>(options.model).n_layer = launch.layers;
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), std::nullopt);
    JobPlan plan = launch.plan;
    plan.rank = comm.rank();
    plan.world_size = comm.size();
    plan.run_dir = "/run";
    plan.epoch = launch.epoch;
    plan.resume = launch.resume;
    const bool own = launch.resume == ResumeMode::kNever || !plan.resume_tag.empty();
    plan.oldest_tag_epoch = own ? launch.first_epoch.value_or(launch.epoch) : 0;
    Checkpointing checkpoints(engine, files, plan,
                              {.facts = comm.rank() == 0 ? launch.facts : std::nullopt});
    std::string began;
    try {
      began = fmt::format("step {}", checkpoints.load(std::nullopt));
    } catch (const Error& refusal) {
      began = refusal.what();
    }
    if (comm.rank() == 0) out = {began, checkpoints.notices(), checkpoints.restored_note()};
    if (comm.rank() == 0) checkpoints.set_note(launch.note);
    if (!began.starts_with("step ")) return;
    for (const int64_t step : launch.saves) {
      engine.restore_step(step);
      checkpoints.save();
    }
  });
  return out;
}

std::string began_at(FileSystem& files, int64_t epoch, ResumeMode resume,
                     const std::vector<int64_t>& saves) {
  return begin(files, {.epoch = epoch, .resume = resume, .saves = saves}).what;
}

bool says(const Beginning& beginning, const std::string& what) {
  return std::ranges::any_of(beginning.notices, [&](const std::string& notice) {
    return notice.find(what) != std::string::npos;
  });
}

void rename_tag(MemoryFileSystem& files, const std::string& from, const std::string& to) {
  files.rename("/run/checkpoints/" + from, "/run/checkpoints/" + to);
}

}  // namespace

TEST_CASE("what began anew is gone on with later, and not the run before it", "[rankd]") {
  MemoryFileSystem files;
  CHECK(began_at(files, 1, ResumeMode::kAuto, {10, 20}) == "step 0");
  CHECK(began_at(files, 2, ResumeMode::kAuto, {30}) == "step 20");
  CHECK(began_at(files, 3, ResumeMode::kNever, {5}) == "step 0");
  CHECK(began_at(files, 4, ResumeMode::kAuto, {}) == "step 5");
  CHECK(began_at(files, 5, ResumeMode::kAuto, {8}) == "step 5");
  CHECK(began_at(files, 6, ResumeMode::kRequired, {}) == "step 8");
  CHECK(list_tags(files, "/run/checkpoints").tags.back().begun_in == 1);
  // Nothing of it can be read: the run before it is no way out.
  for (const std::string tag : {"global_step5", "global_step8"}) {
    files.truncate("/run/checkpoints/" + tag + "/rank-00001.pieces", 9);
  }
  CHECK_THAT(began_at(files, 7, ResumeMode::kAuto, {}),
             Catch::Contains("no checkpoint that can be loaded") &&
                 Catch::Contains("global_step8/rank-00001.pieces"));
  CHECK(began_at(files, 8, ResumeMode::kNever, {}) == "step 0");
}

// As an editor or `echo` does it.
void set_latest(MemoryFileSystem& files, const std::string& tag) {
  files.write_text_atomically("/run/checkpoints/latest", tag);
}

std::vector<std::string> tags_of(FileSystem& files) {
  std::vector<std::string> names;
  for (const CommittedTag& tag : list_tags(files, "/run/checkpoints").tags)
    names.push_back(fmt::format("{} of {}", tag.step, tag.begun_in));
  return names;
}

TEST_CASE("a latest that somebody has set is gone on with, and what was newer is left behind",
          "[rankd]") {
  MemoryFileSystem files;
  CHECK(began_at(files, 1, ResumeMode::kAuto, {3, 6, 9}) == "step 0");
  set_latest(files, "global_step6");
  Launch launch{.epoch = 2};
  launch.plan.committed_step = 9;
  launch.plan.committed_by = "committed.json names global_step9";
  const Beginning back = begin(files, launch);
  CHECK(back.what == "step 6");
  REQUIRE(back.notices.size() == 1);
  CHECK_THAT(back.notices[0],
             Catch::StartsWith("resumed step=6 from=global_step6: checkpoints/latest names it, and "
                               "what was made after step 6 is left behind; global_step9 stays"));
  // A restart before anything was saved goes back as well, also where a resume is required.
  CHECK(began_at(files, 3, ResumeMode::kRequired, {}) == "step 6");
  CHECK(began_at(files, 4, ResumeMode::kAuto, {8}) == "step 6");
  CHECK(tags_of(files) == std::vector<std::string>{"8 of 4", "9 of 1", "6 of 1", "3 of 1"});
  CHECK(began_at(files, 5, ResumeMode::kRequired, {}) == "step 8");
  // What goes on from 8 is of the same line; the step that is repeated takes the old one's place.
  CHECK(began_at(files, 6, ResumeMode::kAuto, {9, 10}) == "step 8");
  CHECK(tags_of(files) ==
        std::vector<std::string>{"10 of 4", "9 of 4", "8 of 4", "6 of 1", "3 of 1"});
  CHECK(began_at(files, 7, ResumeMode::kAuto, {}) == "step 10");
}

TEST_CASE("nobody falls back to what was left behind", "[rankd]") {
  MemoryFileSystem files;
  CHECK(began_at(files, 1, ResumeMode::kAuto, {3, 6, 9}) == "step 0");
  set_latest(files, "global_step6");
  CHECK(began_at(files, 2, ResumeMode::kAuto, {8}) == "step 6");
  files.flip_bit("/run/checkpoints/global_step8/rank-00001.pieces", 99);
  // Nor does what is made then stand behind the tag that does not hold.
  CHECK(began_at(files, 3, ResumeMode::kAuto, {7}) == "step 6");
  CHECK(tags_of(files).front() == "7 of 3");
  CHECK(began_at(files, 4, ResumeMode::kAuto, {}) == "step 7");
  files.flip_bit("/run/checkpoints/global_step7/rank-00001.pieces", 99);
  files.flip_bit("/run/checkpoints/global_step6/rank-00001.pieces", 99);
  CHECK(began_at(files, 5, ResumeMode::kAuto, {}) == "step 3");
}

TEST_CASE("a latest that was late is no wish", "[rankd]") {
  MemoryFileSystem files;
  CHECK(began_at(files, 1, ResumeMode::kAuto, {3, 6}) == "step 0");
  CHECK(began_at(files, 2, ResumeMode::kAuto, {9}) == "step 6");
  // Power went after the commit of step 9.
  files.remove("/run/checkpoints/global_step9/named");
  set_latest(files, "global_step6\n");
  const Beginning beginning = begin(files, {.epoch = 3});
  CHECK(beginning.what == "step 9");
  CHECK(
      says(beginning, "checkpoints/latest still names global_step6 (to go back there: --resume "));
  // Now it is known to have named the newest.
  CHECK(files.read_text("/run/checkpoints/latest", 100) == "global_step9\n");
  set_latest(files, "global_step6\n");
  CHECK(began_at(files, 4, ResumeMode::kAuto, {}) == "step 6");
}

TEST_CASE("a checkpoint is asked for by its name, and it is that one or none", "[rankd]") {
  MemoryFileSystem files;
  CHECK(began_at(files, 1, ResumeMode::kAuto, {3, 6, 9}) == "step 0");
  Launch launch{.epoch = 2};
  launch.plan.resume_tag = "global_step6";
  const Beginning back = begin(files, launch);
  CHECK(back.what == "step 6");
  CHECK(says(back, "from=global_step6: --resume names it, and what was made after step 6"));
  launch.epoch = 3;  // of the same launch, which has saved nothing yet
  launch.first_epoch = 2;
  launch.saves = {7};
  CHECK(begin(files, launch).what == "step 6");
  launch.epoch = 4;
  launch.saves = {};
  CHECK(begin(files, launch).what == "step 7");
  CHECK(began_at(files, 5, ResumeMode::kAuto, {}) == "step 7");  // another launch
  launch = {.epoch = 6};
  launch.plan.resume_tag = "global_step5";
  CHECK_THAT(begin(files, launch).what,
             Catch::Contains("--resume global_step5: /run/checkpoints has no checkpoint of that "
                             "name (the newest is global_step7)"));
  files.flip_bit("/run/checkpoints/global_step9/rank-00001.pieces", 99);
  launch.plan.resume_tag = "global_step9";
  launch.epoch = 7;
  CHECK_THAT(begin(files, launch).what,
             Catch::Contains("--resume global_step9: it cannot be loaded") &&
                 Catch::Contains("global_step9/rank-00001.pieces"));
  files.truncate("/run/checkpoints/global_step3/manifest.json", 9);
  launch.plan.resume_tag = "global_step3";
  launch.epoch = 8;
  CHECK_THAT(begin(files, launch).what, Catch::Contains("--resume global_step3: /run/checkpoints/"
                                                        "global_step3/manifest.json"));
}

TEST_CASE("a launch that goes back is followed by the next one, also if it saves nothing",
          "[rankd]") {
  MemoryFileSystem files;
  CHECK(began_at(files, 1, ResumeMode::kAuto, {3, 6, 9}) == "step 0");
  Launch launch{.epoch = 2};
  launch.plan.resume_tag = "global_step3";
  CHECK(begin(files, launch).what == "step 3");
  CHECK(began_at(files, 3, ResumeMode::kAuto, {}) == "step 3");
}

TEST_CASE("steps that nobody may have heard of go with the tag", "[rankd]") {
  MemoryFileSystem files;
  begin(files, {.epoch = 1, .saves = {10}, .note = "step 9\nstep 10\n"});
  CHECK(begin(files, {.epoch = 2, .saves = {12}}).note == "step 9\nstep 10\n");
  CHECK(begin(files, {.epoch = 3}).note.empty());
}

TEST_CASE("ranks save under one tag, or say that they do not", "[rankd]") {
  MemoryFileSystem files;
  for (const TagAgreement tags :
       {TagAgreement::kFail, TagAgreement::kWarn, TagAgreement::kIgnore}) {
    MemoryFileSystem own;
    CHECK(save_at({3, 3}, tags, own) == std::vector<std::string>(2, "global_step3"));
  }
  const std::vector<std::string> refused = save_at({3, 3, 4}, TagAgreement::kFail, files);
  const std::string text =
      "refused: the ranks are about to save under different tags: rank 0 under "
      "global_step3, rank 2 under global_step4 (checkpoint.tag_validation is Fail)";
  CHECK(refused == std::vector<std::string>(3, text));
  CHECK(files.list("/run/checkpoints").size() == 1);  // its epoch, and no tag
  // Without a refusal the save is tried, and is not committed, because a rank's file is missing.
  for (const TagAgreement tags : {TagAgreement::kWarn, TagAgreement::kIgnore}) {
    MemoryFileSystem own;
    CHECK(save_at({3, 4}, tags, own) == std::vector<std::string>(2, "failed"));
    CHECK(list_tags(own, "/run/checkpoints").tags.empty());
  }
}

TEST_CASE("a newer tag that does not hold is never passed over without a word", "[rankd]") {
  struct Damage {
    std::string what;
    std::function<void(MemoryFileSystem&)> inflict;
    std::string said;
  };
  const std::string tag = "/run/checkpoints/global_step30";
  const std::vector<Damage> kinds{
      {"a manifest with one bit changed",
       [&](auto& files) { files.flip_bit(tag + "/manifest.json", 900); }, "manifest.json: corrupt"},
      {"no manifest", [&](auto& files) { files.remove(tag + "/manifest.json"); },
       "has no manifest.json"},
      {"an empty manifest", [&](auto& files) { files.truncate(tag + "/manifest.json", 0); },
       "manifest.json"},
      {"a renamed tag", [&](auto& files) { rename_tag(files, "global_step30", "global_step31"); },
       "the directory was renamed"},
      {"a tag that was moved away", [&](auto& files) { files.remove_tree(tag); },
       "names global_step30, which is not"},
      {"a missing file", [&](auto& files) { files.remove(tag + "/rank-00001.pieces"); },
       "is missing"},
      {"a shorter file", [&](auto& files) { files.truncate(tag + "/rank-00001.pieces", 99); },
       "truncated"},
      {"data that do not hold",
       [&](auto& files) { files.flip_bit(tag + "/rank-00001.pieces", 99); }, "corrupt"}};
  for (const Damage& damage : kinds) {
    CAPTURE(damage.what);
    MemoryFileSystem files;
    REQUIRE(began_at(files, 1, ResumeMode::kAuto, {10, 20, 30}) == "step 0");
    damage.inflict(files);
    const std::string refusal = began_at(files, 2, ResumeMode::kRequired, {});
    CHECK_THAT(refusal, Catch::StartsWith("--resume required: ") && Catch::Contains(damage.said));
    const Beginning beginning = begin(files, {.epoch = 3});
    CHECK(beginning.what == "step 20");
    CHECK(says(beginning, damage.said));
    CHECK(says(beginning, "resumed step=20 from=global_step20: going back from step 3"));
  }
}

TEST_CASE("where there has been progress nobody begins at step 0 unasked", "[rankd]") {
  const auto spoil = [](MemoryFileSystem& files,
                        const std::function<void(const std::string& tag)>& each) {
    for (const std::string tag : {"global_step10", "global_step20"})
      each("/run/checkpoints/" + tag);
    static_cast<void>(files);
  };
  for (const bool latest : {false, true}) {
    MemoryFileSystem files;
    REQUIRE(began_at(files, 1, ResumeMode::kAuto, {10, 20}) == "step 0");
    if (!latest) files.remove("/run/checkpoints/latest");
    SECTION(fmt::format("all manifests are gone, latest {}", latest)) {
      spoil(files, [&](const std::string& tag) { files.remove(tag + "/manifest.json"); });
      CHECK_THAT(began_at(files, 2, ResumeMode::kAuto, {}),
                 Catch::Contains("but there has been progress") &&
                     Catch::Contains("global_step10: has no manifest"));
    }
    SECTION(fmt::format("all tags are gone, latest {}", latest)) {
      spoil(files, [&](const std::string& tag) { files.remove_tree(tag); });
      Launch launch{.epoch = 2};
      if (!latest) {
        launch.plan.committed_step = 20;
        launch.plan.committed_by = "committed.json";
      }
      CHECK_THAT(begin(files, launch).what, Catch::Contains("but there has been progress"));
      CHECK(began_at(files, 3, ResumeMode::kNever, {}) == "step 0");
    }
  }
  MemoryFileSystem files;
  Launch launch;
  launch.plan.progress = "metrics.jsonl holds steps up to 7";
  CHECK_THAT(begin(files, launch).what, Catch::Contains("metrics.jsonl holds steps up to 7"));
  CHECK(began_at(files, 2, ResumeMode::kAuto, {}) == "step 0");  // nothing speaks against it
}

TEST_CASE("what the launcher knows to be committed is missed", "[rankd]") {
  MemoryFileSystem files;
  REQUIRE(began_at(files, 1, ResumeMode::kAuto, {10, 20}) == "step 0");
  files.remove_tree("/run/checkpoints/global_step20");
  files.remove("/run/checkpoints/latest");
  Launch launch{.epoch = 2};
  launch.plan.committed_step = 20;
  launch.plan.committed_by = "this run has saved global_step20";
  const Beginning beginning = begin(files, launch);
  CHECK(beginning.what == "step 10");
  CHECK(says(beginning,
             "going back from step 20 to step 10; step 20 was committed (this run has saved "
             "global_step20)"));
  launch = {.epoch = 3, .resume = ResumeMode::kRequired, .plan = launch.plan};
  CHECK_THAT(begin(files, launch).what,
             Catch::StartsWith("--resume required: ") && Catch::Contains("step 20 was"));
}

TEST_CASE("a checkpoint of another shape is refused, whichever has more", "[rankd]") {
  MemoryFileSystem files;
  REQUIRE(begin(files, {.saves = {10}}).what == "step 0");
  CHECK_THAT(begin(files, {.epoch = 2, .layers = 1}).what,
             Catch::Contains("global_step10 is of another model") &&
                 Catch::Contains("transformer.h.1.") &&
                 Catch::Contains("is in it, and not in the model"));
  CHECK_THAT(begin(files, {.epoch = 3, .layers = 3}).what,
             Catch::Contains("global_step10 is of another model") &&
                 Catch::Contains("transformer.h.2.") && Catch::Contains("is not in it"));
  CHECK(begin(files, {.epoch = 4}).what == "step 10");
}

TEST_CASE("a run that has changed goes on from a checkpoint only if that is asked for", "[rankd]") {
  const RunFacts facts{.model = R"({"n_layer": 2, "resid_pdrop": 0.0})",
                       .config = R"({"optimizer": {"params": {"lr": 0.1}}})",
                       .data = "digest",
                       .seed = 1,
                       .global_batch = 8,
                       .sequence_length = 16,
                       .order = "shuffled"};
  MemoryFileSystem files;
  REQUIRE(begin(files, {.saves = {10}, .facts = facts}).what == "step 0");
  const Beginning same = begin(files, {.epoch = 2, .facts = facts});
  CHECK(same.what == "step 10");
  REQUIRE(same.notices.size() == 1);
  CHECK_THAT(same.notices[0], Catch::StartsWith("resumed step=10 from=global_step10 saved=20"));
  RunFacts other = facts;
  other.seed = 2;
  other.data = "another";
  const std::string refusal = begin(files, {.epoch = 3, .facts = other}).what;
  CHECK_THAT(refusal, Catch::Contains("the seed was 1 and is 2; the training data are others") &&
                          Catch::Contains("--accept-changes"));
  Launch accepted{.epoch = 4, .facts = other};
  accepted.plan.accept_changes = true;
  const Beginning beginning = begin(files, accepted);
  CHECK(beginning.what == "step 10");
  CHECK(says(beginning, "note: since checkpoint global_step10: the seed was 1 and is 2"));
  RunFacts tuned = facts;
  tuned.config = R"({"optimizer": {"params": {"lr": 0.2}}})";
  const Beginning noted = begin(files, {.epoch = 5, .facts = tuned});
  CHECK(noted.what == "step 10");
  CHECK(says(noted, "optimizer.params.lr was 0.1 and is 0.2"));
}

}  // namespace ds
