// The functions of NCCL that collectives between GPUs call.
// DS_FUNCTION(result, name, parameters) is what becomes of each.
DS_FUNCTION(NcclResult, ncclGetVersion, (int* version))
DS_FUNCTION(const char*, ncclGetErrorString, (NcclResult result))
DS_FUNCTION(const char*, ncclGetLastError, (NcclHandle * comm))
DS_FUNCTION(NcclResult, ncclGetUniqueId, (NcclId * id))
DS_FUNCTION(NcclResult, ncclCommInitRankConfig,
            (NcclHandle * *comm, int size, NcclId id, int rank, NcclConfig* config))
DS_FUNCTION(NcclResult, ncclCommGetAsyncError, (NcclHandle * comm, NcclResult* state))
DS_FUNCTION(NcclResult, ncclCommFinalize, (NcclHandle * comm))
DS_FUNCTION(NcclResult, ncclCommDestroy, (NcclHandle * comm))
DS_FUNCTION(NcclResult, ncclCommAbort, (NcclHandle * comm))
DS_FUNCTION(NcclResult, ncclCommSplit,
            (NcclHandle * comm, int color, int key, NcclHandle** split, NcclConfig* config))
DS_FUNCTION(NcclResult, ncclCommRegister,
            (const NcclHandle* comm, void* buffer, size_t bytes, void** handle))
DS_FUNCTION(NcclResult, ncclCommDeregister, (const NcclHandle* comm, void* handle))
DS_FUNCTION(NcclResult, ncclAllReduce,
            (const void* from, void* to, size_t count, NcclType type, NcclReduce op,
             NcclHandle* comm, NcclStream stream))
DS_FUNCTION(NcclResult, ncclReduceScatter,
            (const void* from, void* to, size_t count_received, NcclType type, NcclReduce op,
             NcclHandle* comm, NcclStream stream))
DS_FUNCTION(NcclResult, ncclAllGather,
            (const void* from, void* to, size_t count_sent, NcclType type, NcclHandle* comm,
             NcclStream stream))
DS_FUNCTION(NcclResult, ncclBroadcast,
            (const void* from, void* to, size_t count, NcclType type, int root, NcclHandle* comm,
             NcclStream stream))
DS_FUNCTION(NcclResult, ncclSend,
            (const void* from, size_t count, NcclType type, int peer, NcclHandle* comm,
             NcclStream stream))
DS_FUNCTION(NcclResult, ncclRecv,
            (void* to, size_t count, NcclType type, int peer, NcclHandle* comm, NcclStream stream))
DS_FUNCTION(NcclResult, ncclGroupStart, ())
DS_FUNCTION(NcclResult, ncclGroupEnd, ())
