// The functions of cuDNN that attention on GPUs calls: a graph is made of descriptors of its
// backend. DS_FUNCTION(name) is what becomes of each.
DS_FUNCTION(cudnnCreate)
DS_FUNCTION(cudnnDestroy)
DS_FUNCTION(cudnnSetStream)
DS_FUNCTION(cudnnGetVersion)
DS_FUNCTION(cudnnGetErrorString)
DS_FUNCTION(cudnnBackendCreateDescriptor)
DS_FUNCTION(cudnnBackendDestroyDescriptor)
DS_FUNCTION(cudnnBackendSetAttribute)
DS_FUNCTION(cudnnBackendGetAttribute)
DS_FUNCTION(cudnnBackendFinalize)
DS_FUNCTION(cudnnBackendExecute)
