// SPDX-License-Identifier: Apache-2.0

// OpenSSL's headers, and a function for each of its macros that Swift cannot import.

#ifndef COPENSSL_SHIM_H
#define COPENSSL_SHIM_H

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/pkcs7.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

static inline int shim_SSL_CTX_set_min_proto_version(SSL_CTX *context, int version) {
    return (int)SSL_CTX_set_min_proto_version(context, version);
}
static inline int shim_SSL_CTX_set_max_proto_version(SSL_CTX *context, int version) {
    return (int)SSL_CTX_set_max_proto_version(context, version);
}
static inline void shim_SSL_CTX_set_mode(SSL_CTX *context, long mode) {
    (void)SSL_CTX_set_mode(context, mode);
}
static inline void shim_SSL_CTX_set_dh_auto(SSL_CTX *context) {
    (void)SSL_CTX_set_dh_auto(context, 1);
}
static inline void shim_SSL_CTX_set_session_cache_mode(SSL_CTX *context, long mode) {
    (void)SSL_CTX_set_session_cache_mode(context, mode);
}
// Options are 64-bit shifts, which Swift cannot import either.
static inline void shim_SSL_CTX_set_careful_options(SSL_CTX *context) {
    (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
}
static inline void shim_SSL_CTX_set_server_preference(SSL_CTX *context) {
    (void)SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
}
static inline void shim_SSL_CTX_set_no_tickets(SSL_CTX *context) {
    (void)SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
}
static inline int shim_SSL_CTX_add1_chain_cert(SSL_CTX *context, X509 *certificate) {
    return (int)SSL_CTX_add1_chain_cert(context, certificate);
}
static inline int shim_SSL_set_tlsext_host_name(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, name);
}
static inline void shim_BIO_set_retry_read(BIO *bio) { BIO_set_retry_read(bio); }
static inline void shim_BIO_clear_retry_flags(BIO *bio) { BIO_clear_retry_flags(bio); }
static inline long shim_BIO_get_mem_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }
static inline void shim_OPENSSL_free(void *memory) { OPENSSL_free(memory); }

static inline STACK_OF(X509) *shim_sk_X509_new_null(void) { return sk_X509_new_null(); }
static inline int shim_sk_X509_num(const STACK_OF(X509) *stack) { return sk_X509_num(stack); }
static inline X509 *shim_sk_X509_value(const STACK_OF(X509) *stack, int index) { return sk_X509_value(stack, index); }
static inline int shim_sk_X509_push(STACK_OF(X509) *stack, X509 *certificate) {
    return sk_X509_push(stack, certificate);
}
// Frees the stack, but not its elements.
static inline void shim_sk_X509_free(STACK_OF(X509) *stack) { sk_X509_free(stack); }
static inline void shim_sk_X509_pop_free(STACK_OF(X509) *stack) { sk_X509_pop_free(stack, X509_free); }

static inline int shim_sk_PKCS7_num(const STACK_OF(PKCS7) *stack) { return sk_PKCS7_num(stack); }
static inline PKCS7 *shim_sk_PKCS7_value(const STACK_OF(PKCS7) *stack, int index) {
    return sk_PKCS7_value(stack, index);
}
static inline void shim_sk_PKCS7_pop_free(STACK_OF(PKCS7) *stack) { sk_PKCS7_pop_free(stack, PKCS7_free); }
static inline int shim_PKCS7_is_data(PKCS7 *part) { return PKCS7_type_is_data(part); }
static inline int shim_PKCS7_is_encrypted(PKCS7 *part) { return PKCS7_type_is_encrypted(part); }
// The encryption algorithm of a part; NULL if there is none.
static inline const X509_ALGOR *shim_PKCS7_get0_encryption(const PKCS7 *part) {
    if (!PKCS7_type_is_encrypted(part) || part->d.encrypted == NULL) return NULL;
    return part->d.encrypted->enc_data == NULL ? NULL : part->d.encrypted->enc_data->algorithm;
}
static inline int shim_sk_PKCS12_SAFEBAG_num(const STACK_OF(PKCS12_SAFEBAG) *stack) {
    return sk_PKCS12_SAFEBAG_num(stack);
}
static inline PKCS12_SAFEBAG *shim_sk_PKCS12_SAFEBAG_value(const STACK_OF(PKCS12_SAFEBAG) *stack, int index) {
    return sk_PKCS12_SAFEBAG_value(stack, index);
}
static inline void shim_sk_PKCS12_SAFEBAG_pop_free(STACK_OF(PKCS12_SAFEBAG) *stack) {
    sk_PKCS12_SAFEBAG_pop_free(stack, PKCS12_SAFEBAG_free);
}

static inline void shim_raise_PKCS12_mac_verify_failure(void) {
    ERR_raise(ERR_LIB_PKCS12, PKCS12_R_MAC_VERIFY_FAILURE);
}

static inline int shim_sk_GENERAL_NAME_num(const GENERAL_NAMES *names) { return sk_GENERAL_NAME_num(names); }
static inline GENERAL_NAME *shim_sk_GENERAL_NAME_value(const GENERAL_NAMES *names, int index) {
    return sk_GENERAL_NAME_value(names, index);
}

// The format of RFC 2253, except that non-ASCII letters are not escaped.
static inline int shim_X509_NAME_print(BIO *bio, const X509_NAME *name) {
    return X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
}

static inline EVP_PKEY *shim_EVP_EC_gen(const char *curve) { return EVP_EC_gen(curve); }
static inline EVP_PKEY *shim_EVP_RSA_gen(unsigned int bits) { return EVP_RSA_gen(bits); }

// Larger blocks are for records, and are freed with each.
static inline void shim_wipe_and_free(void *block, const char *file, int line) {
    size_t byte_count = block ? malloc_usable_size(block) : 0;
    if (byte_count <= 16384) OPENSSL_cleanse(block, byte_count);
    free(block);
}

// Unlike realloc(3), leaves no old copy.
static inline void *shim_wipe_and_move(void *block, size_t byte_count, const char *file, int line) {
    size_t old_byte_count = block ? malloc_usable_size(block) : 0;
    void *moved = byte_count ? malloc(byte_count) : NULL;
    if (byte_count && !moved) return NULL;
    if (block && moved) memcpy(moved, block, old_byte_count < byte_count ? old_byte_count : byte_count);
    shim_wipe_and_free(block, file, line);
    return moved;
}

// What functions called before have left below the caller's part of the stack.
static inline __attribute__((noinline)) void shim_wipe_stack(void) {
    unsigned char rest[32768];
    OPENSSL_cleanse(rest, sizeof(rest));
}

static inline int shim_wipe_freed_memory(void) {
    return CRYPTO_set_mem_functions(NULL, shim_wipe_and_move, shim_wipe_and_free);
}

#endif
