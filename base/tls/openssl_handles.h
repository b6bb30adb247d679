#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

// Owners of OpenSSL's objects. Included by sources of this folder only.
namespace ampd {

struct FreeOpenSsl {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
};

using BioPtr = std::unique_ptr<BIO, FreeOpenSsl>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeOpenSsl>;
using CertificatePtr = std::unique_ptr<X509, FreeOpenSsl>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, FreeOpenSsl>;
using StorePtr = std::unique_ptr<X509_STORE, FreeOpenSsl>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, FreeOpenSsl>;

}  // namespace ampd
