// Who am I (pure): rank, size and local rank out of the environment that an MPI or batch launcher
// gave a process. The environment is a map; nothing is read from the process.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ds {

using Environment = std::map<std::string, std::string, std::less<>>;

struct RankPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string_view found_by;  // the launcher whose variables said so
  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

// Open MPI, MPICH and Intel MPI (PMI), MVAPICH, PALS, Slurm, in this order; the first whose rank
// variable is set decides. Nothing when none is. Throws UsageError when its variables are
// incomplete, no numbers, or contradict one another (rank outside the size).
std::optional<RankPlace> discover_rank(const Environment& environment);

// As DeepSpeed's MPICH helper maps it: PMIX_RANK or PMI_RANK, and PALS_LOCAL_RANKID or
// MPI_LOCALRANKID, as texts. Where both are set they must agree; throws UsageError otherwise, and
// when one of the two is missing.
struct RankVariables {
  std::string rank;
  std::string local_rank;
};
RankVariables mpich_rank_variables(const Environment& environment);

}  // namespace ds
