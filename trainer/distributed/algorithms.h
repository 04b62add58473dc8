// Chooses between the algorithms by which LibTorch and CUDA's libraries can compute the same result.
#pragma once

namespace dtrain::distributed {

// `deterministic`: the same computation gives the same bits each time, on the same kind of GPU with the same libraries.
// Otherwise some algorithms add numbers in the order in which threads arrive. cuDNN takes its own first choice in
// either case; timing several was no faster in training. Applies to the whole process. To be called before anything is
// computed on a GPU, because cuBLAS then reads the environment variable that this sets.
//
// `tolerates_others`: operators that LibTorch lists as nondeterministic run all the same (Family::pools_maxima). Then
// LibTorch's attention adds in varying order, too: it asks its kernels for a fixed one only if it refuses the others.
void ChooseAlgorithms(bool deterministic, bool tolerates_others = false);

}  // namespace dtrain::distributed
