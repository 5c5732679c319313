// Folders of DeepSpeed's checkpoints among others.
#include "core/files/deepspeed_folder.h"

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

// As DeepSpeed's save_checkpoint("/ds") leaves it, ZeRO at stage 1 in bf16.
void lay_checkpoint(MemoryFileSystem& files, const std::string& tag) {
  files.make_directories("/ds/" + tag);
  for (const char* const name :
       {"mp_rank_00_model_states.pt", "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"}) {
    files.write_text_atomically("/ds/" + tag + "/" + name, "x");
  }
  files.write_text_atomically("/ds/latest", tag);
}

TEST_CASE("a folder of DeepSpeed's checkpoints is named with a file of it", "[core]") {
  MemoryFileSystem files;
  lay_checkpoint(files, "global_step10");
  const std::string advice = deepspeed_advice(files, "/ds");
  CHECK_THAT(advice, Catch::StartsWith("/ds: is a folder of DeepSpeed's checkpoints") &&
                         Catch::Contains("`dslaunch convert /ds OUT --config MODEL`") &&
                         Catch::Contains("_states.pt"));
  CHECK_THAT(deepspeed_advice(files, "/ds/global_step10"),
             Catch::StartsWith("/ds/global_step10: is a folder"));
  CHECK_THAT(deepspeed_advice(files, "/ds/global_step10/mp_rank_00_model_states.pt"),
             Catch::Contains("is a file of DeepSpeed's checkpoints") &&
                 Catch::Contains("convert /ds/global_step10 OUT"));
}

TEST_CASE("DeepSpeed's checkpoints are recognised under any tag, and without ZeRO", "[core]") {
  MemoryFileSystem files;
  files.make_directories("/ds/best");
  files.write_text_atomically("/ds/best/mp_rank_00_model_states.pt", "x");
  CHECK_FALSE(deepspeed_advice(files, "/ds").empty());
  CHECK(is_deepspeed_folder(files, "/ds"));
  CHECK(is_deepspeed_folder(files, "/ds/best"));
  CHECK_FALSE(is_deepspeed_folder(files, "/ds/best/mp_rank_00_model_states.pt"));
  files.make_directories("/moe/a");
  files.write_text_atomically("/moe/a/layer_2_expert_3_mp_rank_00_model_states.pt", "x");
  CHECK_FALSE(deepspeed_advice(files, "/moe/a").empty());
}

TEST_CASE("other folders are none of DeepSpeed's", "[core]") {
  MemoryFileSystem files;
  files.make_directories("/run/checkpoints/global_step3");
  files.write_text_atomically("/run/checkpoints/global_step3/rank-00000.pieces", "x");
  files.write_text_atomically("/run/checkpoints/latest", "global_step3");
  files.make_directories("/hf");
  files.write_text_atomically("/hf/pytorch_model.bin", "x");
  for (const char* const path : {"/run", "/run/checkpoints", "/run/checkpoints/global_step3", "/hf",
                                 "/hf/pytorch_model.bin", "/missing", ""}) {
    CAPTURE(path);
    CHECK(deepspeed_advice(files, path).empty());
    CHECK_FALSE(is_deepspeed_folder(files, path));
  }
}

}  // namespace
}  // namespace ds
